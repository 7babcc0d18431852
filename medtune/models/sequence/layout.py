"""The sequence of tokens that a model reads for one question, and the interface of the families that lay it out."""

from collections import deque
from collections.abc import Sequence as Many
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from medtune.data.media.load import Shape
from medtune.data.types import Turn

Position = int | tuple[int, int, int]
"""The position of a token; three numbers (time, row, column) for M-RoPE."""

IGNORED = -100
"""Label of a token that is not learnt.

Source: torch.nn.functional.cross_entropy, `ignore_index`.
"""


class Span(NamedTuple):
    """A half-open range of places in a sequence.

    Attributes:
        start: First place.
        stop: Place behind the last.
        item: Number of the media item, among those that are shown together, whose visual tokens stand here.
    """

    start: int
    stop: int
    item: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """One prompt, with or without its answer, as a model reads it.

    Attributes:
        ids: Token ids; the media spans hold a placeholder that is never embedded.
        labels: For each token of the answer its own id, which is learnt; `IGNORED` for all other tokens.
        positions: Position id of each token.
        media_spans: The places of the visual tokens, one span for each run of them; an item may have several.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    positions: tuple[Position, ...]
    media_spans: tuple[Span, ...]

    @property
    def num_targets(self) -> int:
        """The number of tokens that are learnt."""
        return sum(label != IGNORED for label in self.labels)


class SequenceFamily(Protocol):
    """Tokenizer, chat template, media placeholders, label spans and positions of one model family."""

    @property
    def pad_id(self) -> int:
        """The token that fills the shorter rows of a batch. It is masked, so no other token sees it."""
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
