"""Breaks who sees whom in packed rows, for negative controls."""

import torch

from medtune.models.attention.columns import END, PADDING, PLACE, RANK
from medtune.models.sequence.packing import PackedRows


def all_seen(rows: PackedRows) -> PackedRows:
    """Returns rows in which each token sees all tokens before it, those of other branches and trees as well."""
    columns_BCL = rows.columns_BCL.clone()
    columns_BCL[:, END] = columns_BCL.shape[2]
    return rows._replace(columns_BCL=columns_BCL, is_plain=False)


def leaking(rows: PackedRows, place: int) -> PackedRows:
    """Returns rows in which all later tokens see the token at a place, those of other branches as well."""
    columns_BCL = rows.columns_BCL.clone()
    columns_BCL[:, END, place] = columns_BCL.shape[2]
    return rows._replace(columns_BCL=columns_BCL, is_plain=False)


def without(rows: PackedRows, place: int, *, as_padding: bool = False) -> PackedRows:
    """Returns rows in which no other token sees the one at a place; `as_padding` is for models without columns."""
    columns_BCL = rows.columns_BCL.clone()
    columns_BCL[:, END, place] = columns_BCL[:, RANK, place] + 1
    columns_BCL[:, PLACE, place] = PADDING
    return rows._replace(columns_BCL=columns_BCL, is_plain=as_padding)


def moved(rows: PackedRows) -> PackedRows:
    """Returns rows in which each second token is one position further on, on every axis."""
    shift_L = torch.arange(rows.ids_BL.shape[1]) % 2
    return rows._replace(
        positions_BL=rows.positions_BL + (shift_L if rows.positions_BL.dim() == 2 else shift_L[:, None])
    )
