"""Packs trees of tokens into the rows of one forward pass, and prompts, padded at the left, into batches.

Shape legend: B rows, C columns, L tokens, T target tokens, S media spans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence as Many
from typing import Any, NamedTuple

import torch
from torch import Tensor

from medtune.models.attention import BLOCK, END, NO_BLOCK, PADDING, PLACE
from medtune.models.placing import placed
from medtune.models.sequence.builder import Sequence
from medtune.models.sequence.tree import ROOT, Tree

ROW_TOKENS = 192
"""The number of tokens, about, up to which trees are packed into one row.

Longer rows waste time on masked attention, shorter rows on padding.
"""


class Shown(NamedTuple):
    """A tree with the media items that it shows."""

    tree: Tree
    # Number of the first media item that its media spans show, behind which the others follow in the batch; None where
    # it shows none.
    media: int | None


class PackedRows(NamedTuple):
    """Rows of packed trees, as a model takes them to compute log-probabilities."""

    ids_BL: Tensor  # Token ids, int64; visual tokens have a placeholder.
    positions_BL: Tensor  # Position ids, int64; (B, L, 3) for M-RoPE.
    columns_BCL: Tensor  # Who sees whom, int64: the columns of `medtune.models.attention`.
    is_plain: bool  # Whether each row holds one sequence alone, so that each token sees all tokens before it.
    media_BL: Tensor  # bool, True at visual tokens; it stays in the host's memory, and so do the next two.
    media_S: Tensor  # Number of the media item that each media span shows, int64; spans in the order of the rows.
    length_S: Tensor  # Number of visual tokens of each media span, int64.
    target_row_T: Tensor  # Row of each target token, int64.
    target_place_T: Tensor  # Place in that row at which the target is predicted, int64.
    target_id_T: Tensor  # Id of the target token, int64.
    target_sequence_T: Tensor  # Number of the sequence to which the target belongs, int64.

    @property
    def counted(self) -> Tensor:
        """Which tokens are no padding, bool."""
        return self.columns_BCL[:, PLACE] != PADDING

    @property
    def num_tokens(self) -> int:
        return int(self.counted.sum())

    def to(self, device: torch.device) -> PackedRows:
        """Returns the rows for a model on a device; nothing waits for the transfer.

        What says where media stand stays in the host's memory, where models read it.
        """
        moved: dict[str, Any] = {
            name: placed(each, device)
            for name, each in self._asdict().items()
            if isinstance(each, Tensor) and name not in ("media_BL", "media_S", "length_S")
        }
        return self._replace(**moved)


def balanced(trees: Many[Shown], *, row_tokens: int) -> list[list[Shown]]:
    """Returns rows of about `row_tokens` tokens, the longest first; 0 gives every tree a row of its own."""
    rows = spread([len(shown.tree.ids) for shown in trees], row_tokens=row_tokens)
    return [[trees[number] for number in row] for row in rows]


def spread(lengths: Many[int], *, row_tokens: int) -> list[list[int]]:
    """Returns rows of similar length, the longest first, as the numbers of the trees that each row holds.

    Args:
        row_tokens: Approximate number of tokens of a row; 0 gives every tree a row of its own.

    >>> spread([3, 9, 4, 2], row_tokens=10)
    [[1], [2, 0, 3]]
    """
    longest_first = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    if not row_tokens:
        return [[number] for number in longest_first]
    num_rows = min(len(lengths), math.ceil(sum(lengths) / row_tokens))
    rows: list[list[int]] = [[] for _ in range(num_rows)]
    filled = [0] * num_rows
    for number in longest_first:
        emptiest = min(range(num_rows), key=filled.__getitem__)
        rows[emptiest].append(number)
        filled[emptiest] += lengths[number]
    return [rows[row] for row in sorted(range(num_rows), key=lambda row: -filled[row])]


def batched(rows: Many[Many[Shown]], *, batch_tokens: int) -> Iterator[list[Many[Shown]]]:
    """Yields batches of rows that have at most `batch_tokens` tokens, padding included.

    The rows have to be sorted, the longest first. A row that is longer than `batch_tokens` is a batch of its own.
    """
    batch: list[Many[Shown]] = []
    for row in rows:
        if batch and _tokens(batch[0]) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _tokens(row: Many[Shown]) -> int:
    return sum(len(shown.tree.ids) for shown in row)


def pack(rows: Many[Many[Shown]], *, pad_id: int) -> PackedRows:
    """Returns the rows as tensors, padded at the right with `pad_id`."""
    length = max(_tokens(row) for row in rows)
    ids_BL = torch.full((len(rows), length), pad_id)
    axes = torch.tensor(rows[0][0].tree.positions).shape[1:]
    positions_BL = torch.zeros((len(rows), length, *axes), dtype=torch.int64)
    columns_BCL = _padding(len(rows), length)
    media_BL = torch.zeros((len(rows), length), dtype=torch.bool)
    spans: list[tuple[int, int]] = []
    targets: list[tuple[int, int, int, int]] = []
    for number, row in enumerate(rows):
        first = 0
        for tree, shown in row:
            here = slice(first, first + len(tree.ids))
            ids_BL[number, here] = torch.tensor(tree.ids, dtype=torch.int64)
            positions_BL[number, here] = torch.tensor(tree.positions, dtype=torch.int64)
            columns_BCL[number, END, here] = first + torch.tensor(tree.ends, dtype=torch.int64)
            columns_BCL[number, PLACE, here] = torch.tensor(places_of(tree), dtype=torch.int64)
            for span in sorted(tree.media_spans):
                if shown is None:
                    raise ValueError("a sequence has room for an image, but none is shown with it")
                run = slice(first + span.start, first + span.stop)
                media_BL[number, run] = True
                columns_BCL[number, BLOCK, run] = len(spans)
                spans.append((shown + span.item, span.stop - span.start))
            targets += [(number, first + target.node, target.id, target.sequence) for target in tree.targets]
            first = here.stop
    is_plain = all(len(row) == 1 and _is_chain(row[0].tree) for row in rows)
    columns = torch.tensor(targets, dtype=torch.int64).reshape(-1, 4).unbind(dim=1)
    return PackedRows(ids_BL, positions_BL, columns_BCL, is_plain, media_BL, *span_columns(spans), *columns)


def _padding(rows: int, length: int) -> Tensor:
    rank_L = torch.arange(length)
    columns_CL = torch.stack([rank_L, rank_L + 1, torch.full((length,), PADDING), torch.full((length,), NO_BLOCK)])
    return columns_CL.repeat(rows, 1, 1)


def plain_columns(rows: int, length: int) -> Tensor:
    """Returns the columns of rows that hold one sequence each, without padding and without media."""
    columns_BCL = _padding(rows, length)
    columns_BCL[:, END], columns_BCL[:, PLACE] = length, torch.arange(length)
    return columns_BCL


def places_of(tree: Tree) -> list[int]:
    """Returns the place of each node in the sequences that it belongs to."""
    places: list[int] = []
    for parent in tree.parents:
        places.append(0 if parent == ROOT else places[parent] + 1)
    return places


def _is_chain(tree: Tree) -> bool:
    return tree.ends.count(len(tree.ids)) == len(tree.ids)


def span_columns(spans: Many[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Returns media_S and length_S of media spans, which are given as (number of the item, number of tokens)."""
    media_S, length_S = torch.tensor(spans, dtype=torch.int64).reshape(-1, 2).unbind(dim=1)
    return media_S, length_S


class ShownSpan(NamedTuple):
    """A run of visual tokens in a row: the number of the encoded media item that it shows, and its length in tokens."""

    media: int
    length: int


def spans_of_rows(media_BL: Tensor, media_S: Tensor, length_S: Tensor) -> tuple[tuple[ShownSpan, ...], ...]:
    """Returns the media spans of each row, in their order.

    Args:
        media_BL: bool, True at visual tokens.
        media_S: Number of the media item that each media span shows, in the order of the rows.
        length_S: Number of visual tokens of each media span.
    """
    waiting = iter([ShownSpan(*each) for each in zip(media_S.tolist(), length_S.tolist(), strict=True)])
    rows = []
    for places in media_BL.sum(dim=1).tolist():
        row: list[ShownSpan] = []
        while sum(span.length for span in row) < places and (span := next(waiting, None)):
            row.append(span)
        if (spanned := sum(span.length for span in row)) != places:
            raise ValueError(
                f"{places} visual tokens where a row's spans have {spanned}; a sequence was cut through its image"
            )
        rows.append(tuple(row))
    if next(waiting, None) is not None:
        raise ValueError("there are more media spans than runs of visual tokens; a sequence was cut through its image")
    return tuple(rows)


class PromptRows(NamedTuple):
    """A batch of left-padded prompts."""

    ids_BL: Tensor  # Token ids, int64; visual tokens have a placeholder.
    positions_BL: Tensor  # Position ids, int64; (B, L, 3) for M-RoPE.
    attention_BL: Tensor  # bool, False at padding.
    media_BL: Tensor  # bool, True at visual tokens.
    media_S: Tensor  # Number of the media item that each media span shows, int64; spans in the order of the rows.
    length_S: Tensor  # Number of visual tokens of each media span, int64.

    def to(self, device: torch.device) -> PromptRows:
        return PromptRows(*(tensor.to(device) for tensor in self))


def pad_left(sequences: Many[Sequence], media: Many[int | None], *, pad_id: int) -> PromptRows:
    """Returns one batch whose rows all end at the same place.

    Args:
        media: Number of the first media item that each sequence shows, behind which its others follow; None where it
            shows none.
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
