"""Merges sequences that begin with the same tokens into a tree with one node for each token.

The common beginning of all questions about one media item, or of all options of one question, is thus computed only
once. A token attends only to its ancestors and keeps the position that it has in its own sequence, so that every
branch is computed exactly as if it were a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import NamedTuple

from medtune.models.sequence.layout import IGNORED, Position, Sequence, Span

ROOT = -1


class Target(NamedTuple):
    """A token that the model should predict.

    Attributes:
        node: Node at which the token is predicted, i.e. the node before it; `ROOT` where there is none.
        id: Id of the token.
        sequence: Number of the sequence to which the token belongs.
    """

    node: int
    id: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of merged sequences.

    Attributes:
        ids: Token id of each node; parents come before their children.
        positions: Position id of each node.
        parents: Parent of each node, `ROOT` for nodes without one.
        targets: The learnt tokens of all sequences. The last token of a sequence is only predicted, so that it has no
            node, unless another sequence continues behind it.
        media_spans: Runs of nodes that hold visual tokens of one media item.
    """

    ids: tuple[int, ...]
    positions: tuple[Position, ...]
    parents: tuple[int, ...]
    targets: tuple[Target, ...]
    media_spans: tuple[Span, ...]


def grow(sequences: Many[Sequence], numbers: Many[int]) -> Tree:
    """Returns the tree of sequences that all show the same media.

    Args:
        sequences: The sequences, at least one.
        numbers: The number of each sequence, by which the targets refer to it.
    """
    ids: list[int] = []
    positions: list[Position] = []
    parents: list[int] = []
    targets: list[Target] = []
    spans: dict[Span, None] = {}
    children: dict[tuple[int, int, Position, int | None], int] = {}
    for sequence, number in zip(sequences, numbers, strict=True):
        item_at = {place: span.item for span in sequence.media_spans for place in range(span.start, span.stop)}
        node, path = ROOT, []
        for place, (id_, position) in enumerate(zip(sequence.ids, sequence.positions, strict=True)):
            if place and sequence.labels[place] != IGNORED:
                targets.append(Target(node, sequence.labels[place], number))
            if place == len(sequence.ids) - 1:
                break
            key = (node, id_, position, item_at.get(place))
            found = children.get(key)
            if found is None:
                found = children[key] = len(ids)
                ids.append(id_)
                positions.append(position)
                parents.append(node)
            node = found
            path.append(node)
        spans.update(
            {Span(path[span.start], path[span.stop - 1] + 1, span.item): None for span in sequence.media_spans}
        )
    return Tree(tuple(ids), tuple(positions), tuple(parents), tuple(targets), tuple(spans))


def grow_within(sequences: Many[Sequence], numbers: Many[int], *, max_tokens: int) -> list[Tree]:
    """Returns the sequences in as few trees as possible, each with at most `max_tokens` nodes, in their order.

    A sequence that is longer than `max_tokens` gets a tree of its own.
    """
    trees: list[Tree] = []
    first = 0
    while first < len(sequences):
        last = _last_that_fits(sequences, first, max_tokens)
        trees.append(grow(sequences[first:last], numbers[first:last]))
        first = last
    return trees


def _last_that_fits(sequences: Many[Sequence], first: int, max_tokens: int) -> int:
    """Returns the end of the longest run of sequences from `first` on whose tree fits; at least `first + 1`."""
    if len(grow(sequences[first:], range(len(sequences) - first)).ids) <= max_tokens:
        return len(sequences)
    low, high = first + 1, len(sequences)
    while low + 1 < high:
        middle = (low + high) // 2
        fits = len(grow(sequences[first:middle], range(middle - first)).ids) <= max_tokens
        low, high = (middle, high) if fits else (low, middle)
    return low
