"""Builds the typed blocks of a recipe from the keys and values of YAML; jsonargparse reads each value by its type.

Every error message names the field, its value, the wanted values in plain words, and the file (or `--set`) that holds
it.
"""

import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from jsonargparse import ArgumentError, ArgumentParser

from medtune.data import catalog
from medtune.trainer.recipe.layers import Layer, origin_of, origin_of_block
from medtune.trainer.recipe.plain_types import Hint, allows_none, block_in, wanted, without_none

Place = tuple[str, ...]
"""The keys that lead to a value, from the outermost block inwards. A key of a mapping may itself contain dots."""
_T = TypeVar("_T")


def build(kind: type[_T], tree: Mapping[str, object], layers: Sequence[Layer]) -> _T:
    """Returns the settings as an instance of the dataclass `kind`.

    Args:
        kind: The dataclass to build.
        tree: The merged settings, as nested mappings.
        layers: The layers that they were merged from, for the messages.
    """
    found = _block(kind, tree, (), layers, usual={})
    if not isinstance(found, kind):
        raise TypeError(f"{kind.__name__} came out as a {type(found).__name__}")
    return found


def _block(kind: type, tree: object, place: Place, layers: Sequence[Layer], *, usual: Mapping[str, object]) -> object:
    """Returns a block as an instance of `kind`.

    `usual` holds the defaults of the fields for which the enclosing block has other defaults than `kind` itself.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"{origin_of(layers, place)}: {'.'.join(place)} is {_shown(tree)}; it must be a block of keys")
    hints = typing.get_type_hints(kind)
    usual = {**defaults(kind), **usual}
    prefix = "".join(f"{part}." for part in place)
    values = {}
    for key, value in tree.items():
        if key not in hints:
            raise ValueError(
                f"{origin_of(layers, (*place, str(key)))}: no key {f'{prefix}{key}'!r}."
                f"{catalog.nearest(str(key), hints)} There are: {', '.join(prefix + name for name in hints)}"
            )
        values[str(key)] = _value(hints[key], value, (*place, key), layers, usual=usual.get(key))
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


def _value(hint: Hint, value: object, place: Place, layers: Sequence[Layer], *, usual: object = None) -> object:
    if value is None and allows_none(hint):
        return None
    kind = without_none(hint)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _block(kind, value, place, layers, usual=fields_of(usual))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            listed = "a list of blocks of keys" if block_in(kind) else wanted(hint)
            raise ValueError(f"{origin_of(layers, place)}: {'.'.join(place)} is {_shown(value)}; it must be {listed}")
        return tuple(_value(inner[0], each, (*place, str(number)), layers) for number, each in enumerate(value))
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(hint, value, place, layers)
        return {
            _key(inner[0], key, place, layers): _value(inner[1], each, (*place, str(key)), layers)
            for key, each in value.items()
        }
    return _single(hint, value, place, layers)


def _key(hint: Hint, key: object, place: Place, layers: Sequence[Layer]) -> object:
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    if choices and key not in choices:
        raise ValueError(
            f"{origin_of(layers, (*place, str(key)))}: {'.'.join(place)} has no key {key!r}."
            f"{catalog.nearest(str(key), choices)} There are: {', '.join(choices)}"
        )
    return key


def _single(hint: Hint, value: object, place: Place, layers: Sequence[Layer]) -> object:
    refused = value is None or isinstance(value, Mapping | list | tuple)
    if not refused:
        try:
            return _reader(hint).parse_object({"value": value}).value
        except (ArgumentError, TypeError, ValueError):
            pass
    raise _wrong(hint, value, place, layers)


def _wrong(hint: Hint, value: object, place: Place, layers: Sequence[Layer]) -> ValueError:
    return ValueError(f"{origin_of(layers, place)}: {'.'.join(place)} is {_shown(value)}; it must be {wanted(hint)}")


@functools.cache
def _reader(hint: Hint) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=hint)
    return parser


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)
