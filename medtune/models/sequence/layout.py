"""What every sequence family returns, and how sequences become one padded batch.

Shape legend: B rows, L tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from medtune.data.images import Size

Position = int | tuple[int, int, int]
"""Where a token stands; three numbers (time, row, column) for M-RoPE."""

IGNORED = -100
"""Label of a token that is not learnt. Source: torch.nn.functional.cross_entropy, `ignore_index`."""


class Span(NamedTuple):
    """Half-open range of positions."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One prompt, with or without its answer, as a model reads it.

    Attributes:
        ids: Token ids; at the media spans a placeholder that is never embedded.
        labels: The id to be learnt at each position, `IGNORED` everywhere but in the answer.
        positions: Position ids.
        media_spans: Where the visual tokens go.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    positions: tuple[Position, ...]
    media_spans: tuple[Span, ...]

    @property
    def num_targets(self) -> int:
        """How many tokens are learnt."""
        return sum(label != IGNORED for label in self.labels)


class SequenceFamily(Protocol):
    """Tokenizer, chat template, media placeholders, label spans and positions of one model family."""

    @property
    def pad_id(self) -> int:
        """Fills the shorter rows of a batch; masked, never read."""
        ...

    @property
    def stop_id(self) -> int:
        """Ends a turn."""
        ...

    def layout(self, prompt: str, answer: str | None, *, with_media: bool = True, size: Size | None = None) -> Sequence:
        """Returns the sequence of one question; without an answer it ends where the answer would begin.

        Args:
            prompt: What the user says.
            answer: What the model should say.
            with_media: Whether the image is shown.
            size: Of the image; must be given to a family whose number of visual tokens depends on it.
        """
        ...

    def decode(self, ids: Many[int]) -> str:
        """Returns the text of generated ids, special tokens left out."""
        ...

    def pieces(self, ids: Many[int]) -> list[str]:
        """Returns each id's own text, for showing a label mask to a person."""
        ...


class Rows(NamedTuple):
    """A padded batch.

    Attributes:
        ids_BL: int64.
        labels_BL: int64, `IGNORED` where nothing is learnt.
        positions_BL: int64; (B, L, 3) for M-RoPE.
        attention_BL: bool, False at padding.
        media_BL: bool, True where visual tokens go.
        media_index_B: Which image each row shows; -1 for none.
    """

    ids_BL: Tensor
    labels_BL: Tensor
    positions_BL: Tensor
    attention_BL: Tensor
    media_BL: Tensor
    media_index_B: Tensor

    def to(self, device: torch.device) -> Rows:
        """Returns the batch on another device."""
        return Rows(*(tensor.to(device) for tensor in self))


def pad_rows(sequences: Many[Sequence], media_index: Many[int], *, pad_id: int, side: Literal["left", "right"]) -> Rows:
    """Returns one padded batch: right for training and scoring, left for generation."""
    length = max(len(sequence.ids) for sequence in sequences)
    shape = (len(sequences), length)
    ids_BL = torch.full(shape, pad_id)
    labels_BL = torch.full(shape, IGNORED)
    axes = torch.tensor(sequences[0].positions).shape[1:]
    positions_BL = torch.zeros((*shape, *axes), dtype=torch.int64)
    attention_BL = torch.zeros(shape, dtype=torch.bool)
    media_BL = torch.zeros(shape, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        first = 0 if side == "right" else length - len(sequence.ids)
        here = slice(first, first + len(sequence.ids))
        ids_BL[row, here] = torch.tensor(sequence.ids)
        labels_BL[row, here] = torch.tensor(sequence.labels)
        positions_BL[row, here] = torch.tensor(sequence.positions)
        attention_BL[row, here] = True
        for span in sequence.media_spans:
            media_BL[row, first + span.start : first + span.stop] = True
    return Rows(ids_BL, labels_BL, positions_BL, attention_BL, media_BL, torch.tensor(list(media_index)))
