"""Translates the old names of renamed recipe keys; they are still accepted, with a message that gives the new name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class RenamedKey(NamedTuple):
    """One renamed key.

    Attributes:
        block: The dotted key of the block that holds the key; "*" stands for every element of a list.
        old: The old name.
        new: The new name.
        meaning: The meaning of the key, for the message.
    """

    block: str
    old: str
    new: str
    meaning: str


RENAMED = (
    RenamedKey("train", "batch_groups", "batch_size", "it counts media groups"),
    RenamedKey("train", "micro_batch_groups", "micro_batch_size", "it counts media groups"),
    RenamedKey("train.stages.*", "batch_groups", "batch_size", "it counts media groups"),
    RenamedKey("train.stages.*", "micro_batch_groups", "micro_batch_size", "it counts media groups"),
    RenamedKey("eval", "batch_groups", "batch_size", "it counts media groups"),
)


def with_new_names(tree: Mapping[str, object], *, where: str) -> dict[str, object]:
    """Returns the settings with every renamed key under its new name; the order of the keys is kept.

    Raises:
        ValueError: A block holds a key under both its old and its new name.
    """
    out = dict(tree)
    for renamed in RENAMED:
        out = _with_new_name(out, renamed.block.split("."), renamed, place="", where=where)
    return out


def old_names(tree: Mapping[str, object]) -> list[str]:
    """Returns a message for every key that has its old name."""
    return [
        f"{place}.{renamed.old} is now called {place}.{renamed.new} ({renamed.meaning}); please rename it"
        for renamed in RENAMED
        for place, block in _blocks(tree, renamed.block.split("."))
        if renamed.old in block
    ]


def _with_new_name(
    block: Mapping[str, object], path: Sequence[str], renamed: RenamedKey, *, place: str, where: str
) -> dict[str, object]:
    if not path:
        if renamed.old in block and renamed.new in block:
            raise ValueError(
                f"{where}: {place}{renamed.old} and {place}{renamed.new} are both given; the first is the old name of "
                "the second, so leave it out"
            )
        return {renamed.new if key == renamed.old else key: value for key, value in block.items()}
    out = dict(block)
    for key in out if path[0] == "*" else [path[0]]:
        inner = out.get(key)
        if isinstance(inner, list):
            numbered = {str(number): each for number, each in enumerate(inner)}
            changed = _with_new_name(numbered, path[1:], renamed, place=f"{place}{key}.", where=where)
            out[key] = list(changed.values())
        elif isinstance(inner, Mapping):
            out[key] = _with_new_name(inner, path[1:], renamed, place=f"{place}{key}.", where=where)
    return out


def _blocks(tree: object, path: Sequence[str], place: str = "") -> Iterator[tuple[str, Mapping[str, object]]]:
    if isinstance(tree, list):
        tree = {str(number): each for number, each in enumerate(tree)}
    if not isinstance(tree, Mapping):
        return
    if not path:
        yield place, tree
        return
    for key in tree if path[0] == "*" else [path[0]]:
        if key in tree:
            yield from _blocks(tree[key], path[1:], f"{place}.{key}" if place else str(key))
