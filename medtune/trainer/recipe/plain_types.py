"""Describes the type of a field in plain words, for instance "whole number or none" or "one of image, text_only"."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

Hint = object
"""A type as `typing.get_type_hints` returns it: a class, a union, a literal or a generic alias."""
_WORDS: dict[object, str] = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}
_ARTICLES = ("whole", "number", "path", "list", "mapping", "block")


def plain_type(hint: Hint) -> str:
    """Returns a description in plain words of the values that a field of this type takes.

    Example:
        >>> plain_type(int | None), plain_type(tuple[Literal["a", "b"], ...])
        ('whole number or none', 'list, each one of a, b')
    """
    if hint in _WORDS:
        return _WORDS[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if is_union(hint):
        kinds = [plain_type(kind) for kind in inner if kind is not type(None)]
        return ", ".join(kinds) + (" or none" if type(None) in inner else "")
    if origin is Literal:
        return str(inner[0]) if len(inner) == 1 else f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        return f"list, each {plain_type(inner[0])}"
    if origin in (dict, Mapping):
        return f"mapping, each key {plain_type(inner[0])}, each value {plain_type(inner[1])}"
    if dataclasses.is_dataclass(hint):
        return "block of keys"
    raise TypeError(f"no words for the type {hint}; add them to {__name__}")


def wanted(hint: Hint) -> str:
    """Returns the description as the end of the sentence "it must be ...", with an article if it needs one."""
    words = plain_type(hint)
    with_article = f"a {words}" if words.split(" ")[0].rstrip(",") in _ARTICLES else words
    return with_article.replace(" or none", ", or null for none")


def is_union(hint: Hint) -> bool:
    """Returns whether the type is a union of types."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def without_none(hint: Hint) -> Hint:
    """Returns the other type of a union of one type and None; any other type is returned as it is."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union(hint) else []
    return kinds[0] if len(kinds) == 1 else hint


def allows_none(hint: Hint) -> bool:
    """Returns whether the type allows None."""
    return is_union(hint) and type(None) in typing.get_args(hint)


def block_in(hint: Hint) -> type | None:
    """Returns the dataclass of a field that holds a block, an optional block or a list of blocks; else None."""
    kind = without_none(hint)
    listed = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    return listed if isinstance(listed, type) and dataclasses.is_dataclass(listed) else None
