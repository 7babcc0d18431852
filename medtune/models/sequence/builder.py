"""Builds one sequence piece by piece from ids of text and places for visual tokens."""

from collections import deque
from collections.abc import Sequence as Many
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from medtune.data.media.load import Shape
from medtune.data.types import MEDIA_MARK, Turn

Position = int | tuple[int, int, int]
"""The position of a token; three numbers (time, row, column) for M-RoPE."""

IGNORED = -100
"""Label of a token that is not learnt.

Source: torch.nn.functional.cross_entropy, `ignore_index`.
"""

Piece = str | int
"""A text, or the number of a media item among those that are shown together."""


class Span(NamedTuple):
    """A half-open range of places in a sequence."""

    start: int
    stop: int  # Place behind the last.
    item: int = 0  # Number of the media item, among those that are shown together, whose visual tokens stand here.


@dataclass(frozen=True, slots=True)
class Sequence:
    """One prompt, with or without its answer, as a model reads it."""

    ids: tuple[int, ...]  # Token ids; the media spans hold a placeholder that is never embedded.
    labels: tuple[int, ...]  # For each token of the answer its own id, which is learnt; `IGNORED` for all other tokens.
    positions: tuple[Position, ...]
    # The places of the visual tokens, one span for each run of them; an item may have several.
    media_spans: tuple[Span, ...]

    @property
    def num_targets(self) -> int:
        return sum(label != IGNORED for label in self.labels)


def replied(prompt: Sequence, ids: Many[int]) -> Sequence:
    """Returns the sequence of a prompt with the tokens of a reply behind it, all of which are learnt.

    >>> asked = Sequence((5, 6), (IGNORED, IGNORED), (0, 1), ())
    >>> replied(asked, [7, 2]).labels, replied(asked, [7, 2]).positions
    ((-100, -100, 7, 2), (0, 1, 2, 3))
    """
    last = prompt.positions[-1]
    behind = range(1, len(ids) + 1)
    positions: tuple[Position, ...] = (
        tuple(last + step for step in behind)
        if isinstance(last, int)
        else tuple((last[0] + step, last[1] + step, last[2] + step) for step in behind)
    )
    return Sequence(
        (*prompt.ids, *ids),
        (*((IGNORED,) * len(prompt.ids)), *ids),
        (*prompt.positions, *positions),
        prompt.media_spans,
    )


class Template(Protocol):
    """How one family of models writes a question and its answer: tokens, places of media, labels and positions."""

    @property
    def pad_id(self) -> int:
        """The token that fills the shorter rows of a batch, masked so that no other sees it; for some a turn's end."""
        ...

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end a reply, each of which is cut from it.

        The first is the one that ends a turn and is learnt.
        """
        ...

    def layout(
        self, prompt: str, answer: str | None, *, shapes: Many[Shape | None] = (None,), turns: Many[Turn] = ()
    ) -> Sequence:
        """Returns the sequence of one question; without an answer it ends where the answer would begin.

        Args:
            prompt: The text of the user's turn. Where it or an earlier turn holds `MEDIA_MARK`, each mark is the place
                of one item; without marks all items stand in front of the first turn.
            answer: The text that the model should reply; None where it is to be generated or not known.
            shapes: For each media item that is shown, the size of the image or the frames of the video; empty where
                none is shown. Families whose number of visual tokens does not depend on them do not read them.
            turns: The turns of the conversation before the prompt, which are not learnt.
        """
        ...

    def decode(self, ids: Many[int]) -> str:
        """Returns the text of generated ids, special tokens left out."""
        ...

    def pieces(self, ids: Many[int]) -> list[str]:
        """Returns the text of each id by itself, for commands that show a sequence token by token."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the tokenizer, or the processor that holds it, as transformers reads it."""
        ...


class Placement(NamedTuple):
    """The positions of a run of visual tokens, counted from the first of them."""

    offsets: tuple[Position, ...]  # Position of each visual token, relative to the first.
    advance: int  # Number of positions that the run takes; the text behind it goes on after them.


class Run(NamedTuple):
    """A run of visual tokens: the id of their placeholder, the number of their item, and their positions."""

    token_id: int
    item: int
    placement: Placement


class Laid(NamedTuple):
    """A context with all its visual tokens."""

    ids: tuple[int, ...]  # Token ids; visual tokens have their placeholder.
    positions: tuple[Position, ...]
    spans: tuple[Span, ...]  # The places of the runs of visual tokens.
    next_position: int  # Position of the token behind the context.


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
        positions += _moved(run.offsets, position, axes)
        position += run.advance
    return Laid(tuple(ids), tuple(positions), tuple(spans), position)


def _moved(offsets: tuple[Position, ...], by: int, axes: int) -> list[Position]:
    if axes == 1:
        return [by + place for place in cast("tuple[int, ...]", offsets)]
    places = cast("tuple[tuple[int, int, int], ...]", offsets)
    return [(by + time, by + row, by + column) for time, row, column in places]


def at(position: int, axes: int) -> Position:
    """Returns the position of a token of text, which is the same on all axes."""
    return position if axes == 1 else (position, position, position)


class SequenceBuilder:
    """Collects the ids and media spans of one sequence in order."""

    def __init__(self, placeholder: int) -> None:
        self._placeholder = placeholder
        self._ids: list[int] = []
        self._spans: list[Span] = []

    def __len__(self) -> int:
        return len(self._ids)

    def text(self, ids: Many[int]) -> None:
        self._ids += ids

    def media(self, num_tokens: int, *, item: int = 0) -> None:
        """Adds places for the visual tokens of a media item, by its number among those that are shown together."""
        if not num_tokens:
            return
        self._spans.append(Span(len(self._ids), len(self._ids) + num_tokens, item))
        self._ids += [self._placeholder] * num_tokens

    def sequence(self, *, learnt_from: int | None) -> Sequence:
        """Returns the sequence; labels begin at the position `learnt_from`, and there are none where it is None.

        The places of visual tokens are never learnt.
        """
        first = len(self._ids) if learnt_from is None else learnt_from
        labels = [*((IGNORED,) * first), *self._ids[first:]]
        for span in self._spans:
            labels[span.start : span.stop] = [IGNORED] * (span.stop - span.start)
        return Sequence(
            ids=tuple(self._ids),
            labels=tuple(labels),
            positions=tuple(range(len(self._ids))),
            media_spans=tuple(self._spans),
        )


def user_turns(prompt: str, turns: Many[Turn], *, num_items: int, between: str = "") -> list[list[Piece]]:
    """Returns the pieces of each user's turn: those of the earlier turns, and at the end those of the prompt.

    Each `MEDIA_MARK` is the place of the next item. Without marks all items stand in front of the first turn. Where no
    item is shown, marks are left out, with the white space behind them.

    Args:
        between: The text that is written behind each item where there are no marks.

    >>> user_turns("Larger?", [Turn("Which side?", "left")], num_items=2)
    [[0, 1, 'Which side?'], ['Larger?']]
    >>> user_turns(f"Is {MEDIA_MARK} older than {MEDIA_MARK}?", [], num_items=2)
    [['Is ', 0, ' older than ', 1, '?']]
    """
    texts = [*(turn.asked for turn in turns), prompt]
    marks = sum(text.count(MEDIA_MARK) for text in texts)
    if num_items == 0:
        return [[without_marks(text)] for text in texts]
    if marks == 0:
        shown: list[Piece] = [piece for item in range(num_items) for piece in (item, between) if piece != ""]
        first: list[Piece] = [*shown[: -1 if between else None], f"{between}{texts[0]}"]
        return [first, *(list[Piece]([text]) for text in texts[1:])]
    if marks != num_items:
        raise ValueError(f"the text has {marks} places for media (U+FFFC), and {num_items} items are shown")
    numbers = iter(range(num_items))
    return [_pieces(text, [next(numbers) for _ in range(text.count(MEDIA_MARK))]) for text in texts]


def without_marks(text: str) -> str:
    """Returns a text without the marks of media items and the white space behind each of them."""
    first, *others = text.split(MEDIA_MARK)
    return "".join([first, *(other.lstrip() for other in others)])


def refuse_several(num_items: int) -> None:
    """Refuses several items, for families that are shown one item at a time."""
    if num_items > 1:
        raise ValueError(
            f"{num_items} media items are shown together, and this family is shown one at a time; choose another "
            "model.name, or leave such questions out"
        )


def refuse_conversation(turns: Many[Turn], *, num_items: int) -> None:
    """Refuses several items and earlier turns, for families that are asked one question about one item at a time."""
    refuse_several(num_items)
    if turns:
        raise ValueError(
            f"the question has {len(turns)} earlier turns, and this family is asked one question by itself; choose "
            "another model.name, or leave such questions out"
        )


def _pieces(text: str, items: Many[int]) -> list[Piece]:
    found: list[Piece] = []
    for part, item in zip(text.split(MEDIA_MARK), [*items, None], strict=True):
        found += [part] if part else []
        found += [] if item is None else [item]
    return found
