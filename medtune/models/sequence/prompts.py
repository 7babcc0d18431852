"""Builds batches of prompts for generation: rows without answers, padded at the left.

Shape legend: B rows, L tokens, S media spans.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

import torch
from torch import Tensor

from medtune.models.sequence.layout import Sequence
from medtune.models.sequence.packing import span_columns


class PromptRows(NamedTuple):
    """A batch of left-padded prompts.

    Attributes:
        ids_BL: Token ids, int64; visual tokens have a placeholder.
        positions_BL: Position ids, int64; (B, L, 3) for M-RoPE.
        attention_BL: bool, False at padding.
        media_BL: bool, True at visual tokens.
        media_S: Number of the media item that each media span shows, int64; spans in the order of the rows.
        length_S: Number of visual tokens of each media span, int64.
    """

    ids_BL: Tensor
    positions_BL: Tensor
    attention_BL: Tensor
    media_BL: Tensor
    media_S: Tensor
    length_S: Tensor

    def to(self, device: torch.device) -> PromptRows:
        """Returns the batch on another device."""
        return PromptRows(*(tensor.to(device) for tensor in self))


def pad_left(sequences: Many[Sequence], media: Many[int | None], *, pad_id: int) -> PromptRows:
    """Returns one batch whose rows all end at the same place.

    Args:
        sequences: The sequences of prompts without answers.
        media: Number of the first media item that each sequence shows, behind which its others follow; None where it
            shows none.
        pad_id: Token that fills the shorter rows; it is masked.
    """
    length = max(len(sequence.ids) for sequence in sequences)
    shape = (len(sequences), length)
    ids_BL = torch.full(shape, pad_id)
    axes = torch.tensor(sequences[0].positions).shape[1:]
    positions_BL = torch.zeros((*shape, *axes), dtype=torch.int64)
    attention_BL = torch.zeros(shape, dtype=torch.bool)
    media_BL = torch.zeros(shape, dtype=torch.bool)
    spans: list[tuple[int, int]] = []
    for row, (sequence, shown) in enumerate(zip(sequences, media, strict=True)):
        first = length - len(sequence.ids)
        ids_BL[row, first:] = torch.tensor(sequence.ids)
        positions_BL[row, first:] = torch.tensor(sequence.positions)
        attention_BL[row, first:] = True
        for span in sequence.media_spans:
            if shown is None:
                raise ValueError("a sequence has room for an image, but none is shown with it")
            media_BL[row, first + span.start : first + span.stop] = True
            spans.append((shown + span.item, span.stop - span.start))
    return PromptRows(ids_BL, positions_BL, attention_BL, media_BL, *span_columns(spans))
