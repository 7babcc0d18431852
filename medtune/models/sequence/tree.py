"""Merges sequences that begin alike into a tree with one node for each token.

All questions about one image, and all options of one question, are computed once up to where they differ. A token
attends to its ancestors alone and stands at its own sequence's position, so every branch is computed exactly as if it
were a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import NamedTuple

from medtune.models.sequence.layout import IGNORED, Position, Sequence, Span

ROOT = -1


class Target(NamedTuple):
    """One token that is learnt: at `node` the model should predict `id`; `sequence` is the number of its sequence."""

    node: int
    id: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of merged sequences.

    Attributes:
        ids: Token id of each node; parents come before their children.
        positions: Position id of each node.
        parents: Node before it, `ROOT` for the first.
        targets: All learnt tokens of all sequences. The last token of a sequence is predicted, never read, and has
            no node unless another sequence goes on from it.
        media_spans: Runs of nodes that hold visual tokens.
    """

    ids: tuple[int, ...]
    positions: tuple[Position, ...]
    parents: tuple[int, ...]
    targets: tuple[Target, ...]
    media_spans: tuple[Span, ...]


def grow(sequences: Many[Sequence], numbers: Many[int]) -> Tree:
    """Returns the tree of sequences that all show the same media.

    Args:
        sequences: At least one.
        numbers: What to call each of them in the targets.
    """
    ids: list[int] = []
    positions: list[Position] = []
    parents: list[int] = []
    targets: list[Target] = []
    spans: dict[Span, None] = {}
    children: dict[tuple[int, int, Position, bool], int] = {}
    for sequence, number in zip(sequences, numbers, strict=True):
        media = {place for span in sequence.media_spans for place in range(*span)}
        node, path = ROOT, []
        for place, (id_, position) in enumerate(zip(sequence.ids, sequence.positions, strict=True)):
            if place and sequence.labels[place] != IGNORED:
                targets.append(Target(node, sequence.labels[place], number))
            if place == len(sequence.ids) - 1:
                break
            key = (node, id_, position, place in media)
            found = children.get(key)
            if found is None:
                found = children[key] = len(ids)
                ids.append(id_)
                positions.append(position)
                parents.append(node)
            node = found
            path.append(node)
        spans.update({Span(path[span.start], path[span.stop - 1] + 1): None for span in sequence.media_spans})
    return Tree(tuple(ids), tuple(positions), tuple(parents), tuple(targets), tuple(spans))


def grow_within(sequences: Many[Sequence], numbers: Many[int], *, max_tokens: int) -> list[Tree]:
    """Returns as few trees as hold the sequences in their order with at most `max_tokens` nodes each.

    A sequence that is longer than that gets a tree of its own.
    """
    trees: list[Tree] = []
    first = 0
    while first < len(sequences):
        last = _last_that_fits(sequences, first, max_tokens)
        trees.append(grow(sequences[first:last], numbers[first:last]))
        first = last
    return trees


def _last_that_fits(sequences: Many[Sequence], first: int, max_tokens: int) -> int:
    """Returns the end of the longest run from `first` on whose tree fits; at least one sequence."""
    if len(grow(sequences[first:], range(len(sequences) - first)).ids) <= max_tokens:
        return len(sequences)
    low, high = first + 1, len(sequences)
    while low + 1 < high:
        middle = (low + high) // 2
        fits = len(grow(sequences[first:middle], range(middle - first)).ids) <= max_tokens
        low, high = (middle, high) if fits else (low, middle)
    return low
