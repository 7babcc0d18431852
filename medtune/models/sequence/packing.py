"""Packs trees of tokens into the rows of one forward pass, with a mask that keeps the trees of a row apart.

Shape legend: B rows, L tokens, T target tokens, S media spans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence as Many
from typing import NamedTuple

import torch
from torch import Tensor

from medtune.models.sequence.tree import ROOT, Tree


class Shown(NamedTuple):
    """A tree with the media items that it shows.

    Attributes:
        tree: The tree.
        media: Number of the first media item that its media spans show, behind which the others follow in the batch;
            None where it shows none.
    """

    tree: Tree
    media: int | None


class PackedRows(NamedTuple):
    """Rows of packed trees, as a model takes them to compute log-probabilities.

    Attributes:
        ids_BL: Token ids, int64; visual tokens have a placeholder.
        positions_BL: Position ids, int64; (B, L, 3) for M-RoPE.
        mask_BLL: bool, True where the token of the second axis sees the token of the third.
        media_BL: bool, True at visual tokens.
        media_S: Number of the media item that each media span shows, int64; spans in the order of the rows.
        length_S: Number of visual tokens of each media span, int64.
        target_row_T: Row of each target token, int64.
        target_place_T: Place in that row at which the target is predicted, int64.
        target_id_T: Id of the target token, int64.
        target_sequence_T: Number of the sequence to which the target belongs, int64.
    """

    ids_BL: Tensor
    positions_BL: Tensor
    mask_BLL: Tensor
    media_BL: Tensor
    media_S: Tensor
    length_S: Tensor
    target_row_T: Tensor
    target_place_T: Tensor
    target_id_T: Tensor
    target_sequence_T: Tensor

    @property
    def num_tokens(self) -> int:
        """The number of tokens without padding; a padding token is one that neither sees nor is seen by another."""
        return int(((self.mask_BLL.sum(dim=1) > 1) | (self.mask_BLL.sum(dim=2) > 1)).sum())

    def to(self, device: torch.device) -> PackedRows:
        """Returns the rows on another device."""
        return PackedRows(*(tensor.to(device) for tensor in self))


def balanced(trees: Many[Shown], *, row_tokens: int) -> list[list[Shown]]:
    """Returns rows of similar length, the longest first.

    Args:
        trees: The trees that are spread over the rows.
        row_tokens: Approximate number of tokens of a row; 0 gives every tree a row of its own.
    """
    total = sum(len(shown.tree.ids) for shown in trees)
    num_rows = min(len(trees), math.ceil(total / row_tokens)) if row_tokens else len(trees)
    rows: list[list[Shown]] = [[] for _ in range(num_rows)]
    for shown in sorted(trees, key=lambda shown: -len(shown.tree.ids)):
        min(rows, key=_tokens).append(shown)
    return sorted(rows, key=lambda row: -_tokens(row))


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
    """Returns the rows as tensors, padded at the right with `pad_id`; a padding token sees only itself.

    Raises:
        ValueError: A tree has media spans but shows no media item.
    """
    length = max(_tokens(row) for row in rows)
    ids_BL = torch.full((len(rows), length), pad_id)
    axes = torch.tensor(rows[0][0].tree.positions).shape[1:]
    positions_BL = torch.zeros((len(rows), length, *axes), dtype=torch.int64)
    mask_BLL = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)
    media_BL = torch.zeros((len(rows), length), dtype=torch.bool)
    spans: list[tuple[int, int]] = []
    targets: list[tuple[int, int, int, int]] = []
    for number, row in enumerate(rows):
        first = 0
        for tree, shown in row:
            here = slice(first, first + len(tree.ids))
            ids_BL[number, here] = torch.tensor(tree.ids)
            positions_BL[number, here] = torch.tensor(tree.positions)
            mask_BLL[number, here, here] = ancestors(tree)
            for span in sorted(tree.media_spans):
                if shown is None:
                    raise ValueError("a sequence has room for an image, but none is shown with it")
                media_BL[number, first + span.start : first + span.stop] = True
                spans.append((shown + span.item, span.stop - span.start))
            targets += [(number, first + target.node, target.id, target.sequence) for target in tree.targets]
            first = here.stop
    columns = torch.tensor(targets, dtype=torch.int64).reshape(-1, 4).unbind(dim=1)
    return PackedRows(ids_BL, positions_BL, mask_BLL, media_BL, *span_columns(spans), *columns)


def span_columns(spans: Many[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Returns media_S and length_S of media spans, which are given as (number of the item, number of tokens)."""
    media_S, length_S = torch.tensor(spans, dtype=torch.int64).reshape(-1, 2).unbind(dim=1)
    return media_S, length_S


def ancestors(tree: Tree) -> Tensor:
    """Returns the mask of a tree, bool (nodes, nodes).

    It is True where the node of the second axis is the node of the first or one of its ancestors.
    """
    size = len(tree.ids)
    seen_LL = torch.zeros((size, size), dtype=torch.bool)
    first = 0
    while first < size:
        stop = _end_of_run(tree, first)
        if tree.parents[first] != ROOT:
            seen_LL[first:stop] = seen_LL[tree.parents[first]]
        seen_LL[first:stop, first:stop] = torch.ones((stop - first, stop - first), dtype=torch.bool).tril()
        first = stop
    return seen_LL


def _end_of_run(tree: Tree, first: int) -> int:
    """Returns the end of the run of nodes from `first` on in which each is the child of the one before."""
    stop = first + 1
    while stop < len(tree.ids) and tree.parents[stop] == stop - 1:
        stop += 1
    return stop


def additive(mask_BLL: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the mask as numbers that are added to attention scores, (B, 1, L, L).

    They are 0 where a token sees another, and the lowest number of the type where it does not.
    """
    zeros_BLL = torch.zeros(mask_BLL.shape, dtype=dtype, device=mask_BLL.device)
    return zeros_BLL.masked_fill(~mask_BLL, torch.finfo(dtype).min).unsqueeze(1)


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

    Raises:
        ValueError: The visual tokens of a row are not those of whole spans.
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
