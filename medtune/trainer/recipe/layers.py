"""Merges layers of settings (files, then `--set`) and finds the layer that a value comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

COMMAND_LINE = "--set"
Tree = dict[str, object]


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings that come from one file, or from one value of `--set`.

    Attributes:
        origin: Where the settings come from, for messages: the path of a file, or "--set".
        tree: The keys and values; blocks are nested mappings.
    """

    origin: str
    tree: Mapping[str, object]


def read_layer(path: Path) -> Layer:
    """Returns the settings of a YAML file."""
    try:
        tree = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(
            f"{path}: wanted keys with values; a recipe is a mapping with the blocks model, data, train, eval and log"
        )
    return Layer(str(path), tree)


def override_layer(text: str) -> Layer:
    """Returns the layer of one KEY=VALUE given to `--set`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{COMMAND_LINE} {text!r}: expected KEY=VALUE, for instance train.max_steps=10")
    try:
        tree: object = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ValueError(f"{COMMAND_LINE} {key}: the value is not YAML; put text with such signs in quotes") from error
    block: Tree = {}
    for part in reversed(key.split(".")):
        block = {part: tree}
        tree = block
    return Layer(COMMAND_LINE, block)


def merge(layers: Sequence[Layer]) -> Tree:
    """Returns the settings of all layers in one tree; if two layers give the same key, the later one counts."""
    tree: Tree = {}
    for layer in layers:
        tree = merged(tree, layer.tree)
    return tree


def merged(below: Mapping[str, object], above: Mapping[str, object], *, place: str = "") -> Tree:
    """Returns `below` with the values of `above` put over it, block by block.

    `place` is the dotted key of the block with a final dot, for messages; "" for the whole tree.
    """
    out = dict(below)
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


def origin_of(layers: Sequence[Layer], place: Sequence[str]) -> str:
    """Returns the origin of the last layer that gives a value at a place such as ("train", "stages", "0", "name")."""
    return next((layer.origin for layer in reversed(layers) if says(layer.tree, place)), layers[0].origin)


def origins(layers: Sequence[Layer], tree: Mapping[str, object]) -> dict[str, str]:
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


def origin_of_block(layers: Sequence[Layer], place: Sequence[str]) -> str:
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
