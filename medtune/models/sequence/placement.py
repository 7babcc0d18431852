"""Puts runs of visual tokens into the places of their placeholders, with the positions that they take."""

from collections import deque
from collections.abc import Sequence as Many
from typing import NamedTuple

from medtune.models.sequence.layout import Position, Span


class Placement(NamedTuple):
    """The positions of a run of visual tokens, counted from the first of them.

    Attributes:
        offsets: Position of each visual token, relative to the first.
        advance: Number of positions that the run takes; the text behind it goes on after them.
    """

    offsets: tuple[Position, ...]
    advance: int


class Run(NamedTuple):
    """A run of visual tokens: the id of their placeholder, the number of their item, and their positions."""

    token_id: int
    item: int
    placement: Placement


class Laid(NamedTuple):
    """A context with all its visual tokens.

    Attributes:
        ids: Token ids; visual tokens have their placeholder.
        positions: Position of each token.
        spans: The places of the runs of visual tokens.
        next_position: Position of the token behind the context.
    """

    ids: tuple[int, ...]
    positions: tuple[Position, ...]
    spans: tuple[Span, ...]
    next_position: int


def laid_out(context: Many[int], runs: Many[Run], *, axes: int) -> Laid:
    """Returns the context with each placeholder repeated once for every token of its run."""
    waiting = deque(runs)
    ids: list[int] = []
    positions: list[Position] = []
    spans: list[Span] = []
    position = 0
    for each in context:
        if not waiting or each != waiting[0].token_id:
            ids.append(each)
            positions.append(at(position, axes))
            position += 1
            continue
        _, item, run = waiting.popleft()
        spans.append(Span(len(ids), len(ids) + len(run.offsets), item))
        ids += [each] * len(run.offsets)
        positions += [
            position + o if isinstance(o, int) else (position + o[0], position + o[1], position + o[2])
            for o in run.offsets
        ]
        position += run.advance
    return Laid(tuple(ids), tuple(positions), tuple(spans), position)


def at(position: int, axes: int) -> Position:
    """Returns the position of a token of text, which is the same on all axes."""
    return position if axes == 1 else (position, position, position)
