"""Says in plain words which values a field takes, from its type: "whole number or none", "one of image, text_only"."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

Hint = object
"""A type as `typing.get_type_hints` gives it: a class, a union, a literal or a generic alias."""
_WORDS: dict[object, str] = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}
_ARTICLES = ("whole", "number", "path", "list", "mapping", "block")


def plain_type(hint: Hint) -> str:
    """Returns the values that a field of this type takes, in plain words.

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
    """Returns the same as the end of the sentence "it must be ...", with an article where one belongs."""
    words = plain_type(hint)
    with_article = f"a {words}" if words.split(" ")[0].rstrip(",") in _ARTICLES else words
    return with_article.replace(" or none", ", or null for none")


def is_union(hint: Hint) -> bool:
    """Returns whether the type is one of several."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def without_none(hint: Hint) -> Hint:
    """Returns the type without None, where it is a single type or None; else the type itself."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union(hint) else []
    return kinds[0] if len(kinds) == 1 else hint


def allows_none(hint: Hint) -> bool:
    """Returns whether None is a value of the type."""
    return is_union(hint) and type(None) in typing.get_args(hint)


def block_in(hint: Hint) -> type | None:
    """Returns the dataclass of a field that holds a block, one that may be left out, or a list of blocks."""
    kind = without_none(hint)
    listed = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    return listed if isinstance(listed, type) and dataclasses.is_dataclass(listed) else None
