"""Merges sequences that begin with the same tokens into a tree with one node for each token.

The common beginning of all questions about one media item, or of all options of one question, is thus computed only
once. A token attends only to its ancestors and keeps the position that it has in its own sequence, so that every
branch is computed exactly as if it were a row of its own.

Nodes are numbered depth first: the descendants of a node follow it without a gap, up to the node's end.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from medtune.models.sequence.builder import IGNORED, Position, Sequence, Span

ROOT = -1
_COMPARED = 256
"""The number of tokens that are compared at once with the sequence before."""

_Key = tuple[int, int, Position, int | None]


class Target(NamedTuple):
    """A token that the model should predict."""

    node: int  # Node at which the token is predicted, i.e. the node before it; `ROOT` where there is none.
    id: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Tree:
    # Token id of each node; nodes are numbered depth first, so that parents come before their children.
    ids: tuple[int, ...]
    positions: tuple[Position, ...]
    parents: tuple[int, ...]  # Parent of each node, `ROOT` for nodes without one.
    ends: tuple[int, ...]  # For each node the number behind its last descendant's, or behind its own if it has none.
    # The learnt tokens of all sequences. The last token of a sequence has no node if it is learnt, because it is only
    # predicted, unless another sequence continues behind it.
    targets: tuple[Target, ...]
    # The node of each sequence's last token, or of the one before it where that has no node; in the order in which the
    # sequences were given.
    leaves: tuple[int, ...]
    media_spans: tuple[Span, ...]  # Runs of nodes that hold visual tokens of one media item.


def grow(sequences: Many[Sequence], numbers: Many[int]) -> Tree:
    """Returns the tree of sequences that all show the same media."""
    growing = _Growing()
    for sequence, number in zip(sequences, numbers, strict=True):
        growing.add(sequence, number)
    return growing.tree()


def grow_within(
    sequences: Many[Sequence], numbers: Many[int], *, max_tokens: int, rooms: Many[int] | None = None
) -> list[Tree]:
    """Returns the sequences in few trees, in their order, in time that grows with the number of their tokens.

    A tree ends where the next sequence would bring it above `max_tokens` nodes. What all its sequences share is never a
    reason to end it, because each further tree would compute that again: a tree always has room for as many nodes more
    as its sequences share.

    Args:
        max_tokens: Largest number of nodes of a tree that shares no more than half of them.
        rooms: Number of tokens that each sequence takes beside its nodes, as those of its reply; None if none does.
    """
    trees: list[Tree] = []
    growing: _Growing | None = None
    for sequence, number, room in zip(sequences, numbers, rooms or [0] * len(sequences), strict=True):
        if growing is not None and not growing.has_room_for(sequence, max_tokens=max_tokens, room=room):
            trees.append(growing.tree())
            growing = None
        growing = growing or _Growing()
        growing.add(sequence, number, room)
    return [*trees, growing.tree()] if growing is not None else trees


class _Growing:
    def __init__(self) -> None:
        self._ids: list[int] = []
        self._positions: list[Position] = []
        self._parents: list[int] = []
        self._targets: list[Target] = []
        self._leaves: list[int] = []
        self._spans: dict[tuple[int, int, int], None] = {}
        self._children: dict[_Key, int] = {}
        self._last: Sequence | None = None
        self._path: list[int] = []
        self._shared = 0
        self._room = 0

    def has_room_for(self, sequence: Sequence, *, max_tokens: int, room: int) -> bool:
        known, wanted = self._nodes_in_common(sequence), _num_nodes(sequence)
        # A sequence that leaves the one before at some token leaves all others there or earlier.
        shared = min(self._shared, self._in_common(sequence))
        size = len(self._ids) + wanted - len(known) + self._room + room
        return size <= max(max_tokens, 2 * shared)

    def add(self, sequence: Sequence, number: int, room: int = 0) -> None:
        self._room += room
        common = self._in_common(sequence) if self._last is not None else _num_nodes(sequence)
        self._shared = common if self._last is None else min(self._shared, common)
        path = self._nodes_in_common(sequence)
        wanted = _num_nodes(sequence)
        for key in _keys(sequence, len(path), wanted):
            node = len(self._ids)
            parent = path[-1] if path else ROOT
            self._children[parent, *key] = node
            self._ids.append(key[0])
            self._positions.append(key[1])
            self._parents.append(parent)
            path.append(node)
        for place in _learnt(sequence):
            self._targets.append(Target(path[place - 1], sequence.labels[place], number))
        for span in sequence.media_spans:
            self._spans[path[span.start], path[span.stop - 1], span.item] = None
        self._leaves.append(path[-1] if path else ROOT)
        self._last, self._path = sequence, path

    def _in_common(self, sequence: Sequence) -> int:
        return 0 if self._last is None else min(_in_common(self._last, sequence), len(self._path), _num_nodes(sequence))

    def _nodes_in_common(self, sequence: Sequence) -> list[int]:
        path = self._path[: self._in_common(sequence)]
        for key in _keys(sequence, len(path), _num_nodes(sequence)):
            found = self._children.get((path[-1] if path else ROOT, *key))
            if found is None:
                break
            path.append(found)
        return path

    def tree(self) -> Tree:
        place, ends = _depth_first(self._parents)
        order = sorted(range(len(place)), key=place.__getitem__)
        at = [*place, ROOT]
        return Tree(
            ids=tuple(self._ids[node] for node in order),
            positions=tuple(self._positions[node] for node in order),
            parents=tuple(at[self._parents[node]] for node in order),
            ends=tuple(ends[node] for node in order),
            targets=tuple(target._replace(node=at[target.node]) for target in self._targets),
            leaves=tuple(at[node] for node in self._leaves),
            media_spans=tuple(Span(at[first], at[last] + 1, item) for first, last, item in self._spans),
        )


def _num_nodes(sequence: Sequence) -> int:
    return len(sequence.ids) - (sequence.labels[-1] != IGNORED)


def _learnt(sequence: Sequence) -> Iterator[int]:
    for first in range(0, len(sequence.labels), _COMPARED):
        part = sequence.labels[first : first + _COMPARED]
        if part.count(IGNORED) < len(part):
            yield from (first + n for n, label in enumerate(part) if label != IGNORED and first + n)


def _keys(sequence: Sequence, first: int, stop: int) -> Iterator[tuple[int, Position, int | None]]:
    items: dict[int, int] = {}
    for span in sequence.media_spans:
        items.update(dict.fromkeys(range(max(span.start, first), min(span.stop, stop)), span.item))
    pairs = zip(islice(sequence.ids, first, stop), islice(sequence.positions, first, stop), strict=True)
    for place, (id_, position) in enumerate(pairs, first):
        yield id_, position, items.get(place)


def _in_common(one: Sequence, other: Sequence) -> int:
    """Returns the number of first tokens that two sequences have in common.

    Runs of tokens are compared as slices, because thousands of visual tokens are in common as a rule.
    """
    length = min(len(one.ids), len(other.ids))
    spans, their = one.media_spans, other.media_spans
    if spans != their:
        odd = next(
            (n for n, (a, b) in enumerate(zip(spans, their, strict=False)) if a != b), min(len(spans), len(their))
        )
        length = min([length, *(span.start for each in (spans, their) for span in each[odd : odd + 1])])
    first = 0
    while first < length:
        part = slice(first, min(first + _COMPARED, length))
        if one.ids[part] != other.ids[part] or one.positions[part] != other.positions[part]:
            pairs = zip(one.ids[part], one.positions[part], other.ids[part], other.positions[part], strict=True)
            return first + next(n for n, (a, p, b, q) in enumerate(pairs) if (a, p) != (b, q))
        first = part.stop
    return length


def _depth_first(parents: Many[int]) -> tuple[list[int], list[int]]:
    """Returns the place of each node in depth-first order, and the place behind its last descendant.

    Parents come before their children. Children keep their order.

    >>> _depth_first([ROOT, 0, 1, 0, 1])
    ([0, 1, 2, 4, 3], [5, 4, 3, 5, 4])
    """
    size = [1] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] != ROOT:
            size[parents[node]] += size[node]
    place, free, roots = [0] * len(parents), [0] * len(parents), 0
    for node, parent in enumerate(parents):
        if parent == ROOT:
            place[node], roots = roots, roots + size[node]
        else:
            place[node], free[parent] = free[parent], free[parent] + size[node]
        free[node] = place[node] + 1
    return place, [place[node] + size[node] for node in range(len(parents))]
