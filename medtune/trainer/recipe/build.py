"""Builds the typed blocks of a recipe from the keys and values of YAML; pydantic reads each value by its type.

Every error message names the field, its value, the wanted values in plain words, and the file (or `--set`) that holds
it.
"""

import contextlib
import dataclasses
import functools
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from medtune.data import catalog
from medtune.data.yaml_text import yaml_file, yaml_text
from medtune.trainer.recipe.other_words import key_meant, targets_meant, value_meant

COMMAND_LINE = "--set"
Tree = dict[str, object]


EITHER = ("max_steps", "epochs")
"""Two keys of a training, one of which says how long it takes."""

Hint = object
"""A type as `typing.get_type_hints` returns it: a class, a union, a literal or a generic alias."""
_WORDS: dict[object, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    Path: "path",
    typing.Any: "value",
}
_ARTICLES = ("whole", "number", "path", "list", "mapping", "block")
Place = tuple[str, ...]
"""The keys that lead to a value, from the outermost block inwards. A key of a mapping may itself contain dots."""
_T = TypeVar("_T")
_reader: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.?(?:inf|nan)", re.IGNORECASE
)
"""A number as people write one, quoted or not."""


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """The settings that come from one file, or from one value of `--set`."""

    origin: str  # Where the settings come from, for messages: the path of a file, or "--set".
    tree: Mapping[str, object]  # The keys and values; blocks are nested mappings.


def read_layer(path: Path) -> SettingsLayer:
    tree = yaml_file(path)
    if not isinstance(tree, dict):
        raise ValueError(
            f"{path}: wanted keys with values; a recipe is a mapping with the blocks model, data, train, eval and log"
        )
    return SettingsLayer(str(path), tree)


def override_layer(text: str) -> SettingsLayer:
    """Returns the layer of one KEY=VALUE given to `--set`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{COMMAND_LINE} {text!r}: expected KEY=VALUE, for instance train.max_steps=10")
    try:
        tree: object = yaml_text(value, where=f"{COMMAND_LINE} {key}")
    except ValueError as error:
        if isinstance(error.__cause__, yaml.YAMLError):
            raise ValueError(
                f"{COMMAND_LINE} {key}: the value is not YAML; put text with such signs in quotes"
            ) from error
        raise
    block: Tree = {}
    for part in reversed(key.split(".")):
        block = {part: tree}
        tree = block
    return SettingsLayer(COMMAND_LINE, block)


def merge(layers: Sequence[SettingsLayer]) -> Tree:
    """Returns the settings of all layers in one tree; if two layers give the same key, the later one counts."""
    tree: Tree = {}
    for layer in layers:
        tree = merged(tree, layer.tree)
    return tree


def merged(below: Mapping[str, object], above: Mapping[str, object], *, place: str = "") -> Tree:
    """Returns `below` with the values of `above` put over it, block by block.

    Of two keys that say the same in two ways (`EITHER`), that of `above` counts.

    `place` is the dotted key of the block with a final dot, for messages; "" for the whole tree.
    """
    out = dict(below)
    for one, other in (EITHER, EITHER[::-1]):
        if place == "train." and above.get(one) is not None and other not in above:
            out.pop(other, None)
    for key, value in above.items():
        out[key] = _over(out.get(key), value, place=f"{place}{key}")
    return out


def _over(old: object, value: object, *, place: str) -> object:
    if isinstance(old, dict) and isinstance(value, Mapping):
        return merged(old, value, place=f"{place}.")
    if isinstance(old, list) and isinstance(value, Mapping):
        return _merged_list(old, value, place=place)
    return value


def _merged_list(below: Sequence[object], above: Mapping[str, object], *, place: str) -> list[object]:
    out = list(below)
    for number, value in above.items():
        if not str(number).isdecimal() or int(number) >= len(out):
            there = f"has the elements 0 to {len(out) - 1}" if out else "is empty"
            raise ValueError(f"{place}.{number}: {place} {there}")
        out[int(number)] = _over(out[int(number)], value, place=f"{place}.{number}")
    return out


def origin_of(layers: Sequence[SettingsLayer], place: Sequence[str]) -> str:
    """Returns the origin of the last layer that gives a value at a place such as ("train", "stages", "0", "name")."""
    return next((layer.origin for layer in reversed(layers) if says(layer.tree, place)), layers[0].origin)


def origins(layers: Sequence[SettingsLayer], tree: Mapping[str, object]) -> dict[str, str]:
    """Returns for the dotted key of each value of a tree the origin of the layer that gives it, or "default"."""
    found: dict[str, str] = {}
    for place in _places(tree, ()):
        said = next((layer.origin for layer in reversed(layers) if says(layer.tree, place)), "default")
        found[".".join(place)] = said
    return found


def _places(tree: Mapping[str, object], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _places(value, (*above, key))
        else:
            yield (*above, key)


def origin_of_block(layers: Sequence[SettingsLayer], place: Sequence[str]) -> str:
    """Returns the origin of the first layer that has a block of keys at a place and that no later list replaces."""
    lists = (number for number, layer in enumerate(layers) if _passes_a_list(layer.tree, place))
    layers = layers[max(lists, default=0) :]
    return next((layer.origin for layer in layers if _is_block(layer.tree, place)), layers[0].origin)


def says(tree: object, keys: Sequence[str]) -> bool:
    """Returns whether a layer's tree gives a value at a place, or for a block around it."""
    if not keys or not isinstance(tree, Mapping | list):
        return True
    inner = _children(tree)
    return keys[0] in inner and says(inner[keys[0]], keys[1:])


def _is_block(tree: object, keys: Sequence[str]) -> bool:
    if not keys:
        return isinstance(tree, Mapping)
    inner = _children(tree)
    return keys[0] in inner and _is_block(inner[keys[0]], keys[1:])


def _passes_a_list(tree: object, keys: Sequence[str]) -> bool:
    if isinstance(tree, list):
        return True
    inner = _children(tree)
    return bool(keys) and keys[0] in inner and _passes_a_list(inner[keys[0]], keys[1:])


def _children(tree: object) -> dict[str, object]:
    if isinstance(tree, Mapping):
        return {str(key): value for key, value in tree.items()}
    return {str(number): value for number, value in enumerate(tree)} if isinstance(tree, list) else {}


def plain_type(hint: Hint) -> str:
    """Returns a description in plain words of the values that a field of this type takes.

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
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def without_none(hint: Hint) -> Hint:
    """Returns the other type of a union of one type and None; any other type is returned as it is."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union(hint) else []
    return kinds[0] if len(kinds) == 1 else hint


def allows_none(hint: Hint) -> bool:
    return is_union(hint) and type(None) in typing.get_args(hint)


def block_in(hint: Hint) -> type | None:
    """Returns the dataclass of a field that holds a block, an optional block or a list of blocks; else None."""
    kind = without_none(hint)
    listed = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    return listed if isinstance(listed, type) and dataclasses.is_dataclass(listed) else None


def build(kind: type[_T], tree: Mapping[str, object], layers: Sequence[SettingsLayer]) -> _T:
    """Returns merged settings as an instance of the dataclass `kind`; messages name the layers."""
    found = _block(kind, tree, (), layers, root=kind, usual={})
    if not isinstance(found, kind):
        raise TypeError(f"{kind.__name__} came out as a {type(found).__name__}")
    return found


def _block(
    kind: type, tree: object, place: Place, layers: Sequence[SettingsLayer], *, root: type, usual: Mapping[str, object]
) -> object:
    """Returns a block as an instance of `kind`, where the whole is a `root`.

    `usual` holds the defaults of the fields for which the enclosing block has other defaults than `kind` itself.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(
            f"{origin_of(layers, place)}: {'.'.join(place)} is {_yaml_text(tree)}; it must be a block of keys"
        )
    hints = typing.get_type_hints(kind)
    usual = {**defaults(kind), **usual}
    prefix = "".join(f"{part}." for part in place)
    values = {}
    for key, value in tree.items():
        if key not in hints:
            raise ValueError(
                f"{origin_of(layers, (*place, str(key)))}: no key {f'{prefix}{key}'!r}."
                f"{key_meant(str(key), value, hints, root)} There are: {', '.join(prefix + name for name in hints)}"
            )
        values[str(key)] = _value(hints[key], value, (*place, key), layers, root=root, usual=usual.get(key))
    for name, hint in hints.items():
        if name not in values and name not in usual:
            raise ValueError(f"{origin_of_block(layers, place)}: {prefix}{name} is missing; it must be {wanted(hint)}")
    return kind(**{**usual, **values})


def defaults(kind: type) -> dict[str, object]:
    """Returns the default of each field of a dataclass that has one."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def fields_of(block: object) -> dict[str, object]:
    """Returns the values of a block's fields; an empty mapping if `block` is not a dataclass instance."""
    if not dataclasses.is_dataclass(block) or isinstance(block, type):
        return {}
    return {field.name: getattr(block, field.name) for field in dataclasses.fields(block)}


def _value(
    hint: Hint, value: object, place: Place, layers: Sequence[SettingsLayer], *, root: type, usual: object = None
) -> object:
    if value is None and allows_none(hint):
        return None
    kind = without_none(hint)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _block(kind, value, place, layers, root=root, usual=fields_of(usual))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            listed = "a list of blocks of keys" if block_in(kind) else wanted(hint)
            raise ValueError(
                f"{origin_of(layers, place)}: {'.'.join(place)} is {_yaml_text(value)}; it must be {listed}"
            )
        return tuple(
            _value(inner[0], each, (*place, str(number)), layers, root=root) for number, each in enumerate(value)
        )
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(hint, value, place, layers)
        return {
            _key(inner[0], key, place, layers): _value(inner[1], each, (*place, str(key)), layers, root=root)
            for key, each in value.items()
        }
    return value if hint is typing.Any else _single(hint, value, place, layers)


def _key(hint: Hint, key: object, place: Place, layers: Sequence[SettingsLayer]) -> object:
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    if choices and key not in choices:
        raise ValueError(
            f"{origin_of(layers, (*place, str(key)))}: {'.'.join(place)} has no key {key!r}."
            f"{catalog.nearest(str(key), choices)} There are: {', '.join(choices)}"
        )
    return key


def _single(hint: Hint, value: object, place: Place, layers: Sequence[SettingsLayer]) -> object:
    if isinstance(value, bool) and (word := "on" if value else "off") in typing.get_args(hint):
        # YAML reads the words on and off as true and false.
        return word
    # Of texts, numbers are read only as people write them; of other values, none is taken for another kind.
    is_text = isinstance(value, str)
    with contextlib.suppress(ValidationError):
        found: object = _reader(hint).validate_python(value, strict=not is_text)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if not (is_text and is_number) or _NUMBER.fullmatch(str(value).strip()):
            return found
    raise _wrong(hint, value, place, layers)


def _wrong(hint: Hint, value: object, place: Place, layers: Sequence[SettingsLayer]) -> ValueError:
    choices = [
        choice
        for kind in (hint, *typing.get_args(hint))
        if typing.get_origin(kind) is Literal
        for choice in typing.get_args(kind)
    ]
    meant = value_meant(value, choices) if choices and isinstance(value, str | int) else ""
    if place[-1] == "targets" and isinstance(value, list):
        meant = targets_meant(value)
    ending = f".{meant}" if meant else ""
    return ValueError(
        f"{origin_of(layers, place)}: {'.'.join(place)} is {_yaml_text(value)}; it must be {wanted(hint)}{ending}"
    )


def _yaml_text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)
