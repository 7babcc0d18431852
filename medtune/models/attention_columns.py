"""Who sees whom as integers, a few for each token, and exact attention over them, in chunks, for CPUs.

The nodes of a tree are numbered depth first, so that a node's descendants are the run of ranks that ends before its
`end`. A token q then sees a token k exactly if

    rank[k] <= rank[q] < end[k]

whatever the order of the tokens in memory. One rule thus serves trees, several trees in a row, padding, and replies
that grow behind their tree. Some models read further columns: a window counts the `place` of a token in its own
sequence, and tokens of one `block` (an image of Gemma 3) see one another both ways.

Shape legend: B rows, H heads, G key heads, C columns, L tokens, Q queries, K keys, D head width.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.weak import WeakIdKeyDictionary

RANK, END, PLACE, BLOCK = range(4)
"""The columns in their order. A model that needs one takes all columns before it, too."""
NO_BLOCK = -1
PADDING = -1
"""The place of a padding token, which sees itself alone and is seen by no other."""


def sees(query_BCQ: Tensor, key_BCK: Tensor, *, window: int | None) -> Tensor:
    """Returns bool (B, Q, K), True where a query sees a key.

    Args:
        query_BCQ: The columns of the queries; tokens of a block see one another where there is a column of blocks.

    Source: transformers, masking_utils.py, `create_sliding_window_causal_mask` (a block is seen beyond the window).
    """
    q, k = query_BCQ.unsqueeze(3), key_BCK.unsqueeze(2)
    seen_BQK = (k[:, RANK] <= q[:, RANK]) & (q[:, RANK] < k[:, END])
    if window is not None:
        seen_BQK &= q[:, PLACE] - k[:, PLACE] < window
    if query_BCQ.shape[1] > BLOCK:
        seen_BQK |= (k[:, BLOCK] == q[:, BLOCK]) & (q[:, BLOCK] != NO_BLOCK)
    return seen_BQK


CHUNK = 256
"""The number of queries that share a mask."""
_KEPT_BYTES = 64 * 2**20
"""The size up to which all masks of a pass are kept, so that its layers do not make them again."""
_GATHERED_BELOW = 0.75
"""The share of the keys below which those that a chunk sees are copied together."""


class _Chunk(NamedTuple):
    first: int
    stop: int
    num_keys: int
    key_K: Tensor | None
    mask_BQK: Tensor | None


class _Plan(NamedTuple):
    lead: int
    chunks: tuple[_Chunk, ...]


# All layers of a pass get the same tensor of columns.
_plans: WeakIdKeyDictionary = WeakIdKeyDictionary()


def chunked(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKD: Tensor,
    columns_B1CK: Tensor,
    *,
    scale: float | None,
    dropout: float = 0.0,
    window: int | None = None,
) -> Tensor:
    """Returns the attention's outputs (B, H, Q, D) of whole rows.

    Args:
        columns_B1CK: The columns of the tokens, in the order of their ranks; the same tensor for all layers of a pass.
    """
    plan = _plan(columns_B1CK, window, q_BHQD.dtype)
    grouped = q_BHQD.shape[1] != k_BGKD.shape[1]
    parts = []
    if plan.lead:
        q, k, v = (each[:, :, : plan.lead] for each in (q_BHQD, k_BGKD, v_BGKD))
        parts.append(
            scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scale, enable_gqa=grouped)
        )
    for chunk in plan.chunks:
        q, k, v = q_BHQD[:, :, chunk.first : chunk.stop], k_BGKD[:, :, : chunk.num_keys], v_BGKD[:, :, : chunk.num_keys]
        if chunk.key_K is not None:
            k, v = k_BGKD.index_select(2, chunk.key_K), v_BGKD.index_select(2, chunk.key_K)
        mask_BQK = chunk.mask_BQK
        if mask_BQK is None:
            mask_BQK = _mask(columns_B1CK.squeeze(1), chunk, window, q.dtype)
        parts.append(
            scaled_dot_product_attention(
                q, k, v, attn_mask=mask_BQK.unsqueeze(1), dropout_p=dropout, scale=scale, enable_gqa=grouped
            )
        )
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def continued(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKD: Tensor,
    columns_B1CK: Tensor,
    *,
    scale: float | None,
    window: int | None = None,
) -> Tensor:
    """Returns the attention's outputs (B, H, Q, D) of the last Q tokens, whose keys and values are in a cache.

    The queries of the heads that share a key head are read as queries of one head, so that no key is copied.
    """
    heads, num_queries = q_BHQD.shape[1:3]
    shared = heads // k_BGKD.shape[1]
    known = _plans.setdefault(columns_B1CK, {})
    key = ("continued", num_queries, shared, window, q_BHQD.dtype)
    if key not in known:
        columns_BCK = columns_B1CK.squeeze(1)
        seen_BQK = sees(columns_BCK[:, :, -num_queries:], columns_BCK, window=window)
        known[key] = _added(seen_BQK, q_BHQD.dtype).repeat(1, shared, 1).unsqueeze(1)
    out = scaled_dot_product_attention(
        q_BHQD.unflatten(1, (-1, shared)).flatten(2, 3), k_BGKD, v_BGKD, attn_mask=known[key], scale=scale
    )
    made: Tensor = out.unflatten(2, (shared, num_queries)).flatten(1, 2)
    return made


def _plan(columns_B1CK: Tensor, window: int | None, dtype: torch.dtype) -> _Plan:
    known: dict[object, _Plan] = _plans.setdefault(columns_B1CK, {})
    key = (window, dtype)
    if key not in known:
        known[key] = _planned(columns_B1CK.squeeze(1), window, dtype)
    return known[key]


def _planned(columns_BCK: Tensor, window: int | None, dtype: torch.dtype) -> _Plan:
    num_columns, length = columns_BCK.shape[1:]
    has_blocks = num_columns > BLOCK
    lead = 0 if has_blocks else min(_lead(columns_BCK), window or length)
    chunks, kept = [], 0
    for first in range(lead, length, CHUNK):
        stop = min(first + CHUNK, length)
        # Without blocks a row is in the order of its ranks, and nothing behind a chunk is seen.
        num_keys = length if has_blocks else stop
        seen_BQK = sees(columns_BCK[:, :, first:stop], columns_BCK[:, :, :num_keys], window=window)
        used_K = seen_BQK.any(dim=1).any(dim=0)
        key_K = used_K.nonzero()[:, 0]
        chunk = _Chunk(first, stop, num_keys, key_K if len(key_K) < _GATHERED_BELOW * num_keys else None, None)
        mask_BQK = _mask(columns_BCK, chunk, window, dtype)
        kept += mask_BQK.nbytes
        chunks.append(chunk._replace(mask_BQK=mask_BQK if kept <= _KEPT_BYTES else None))
    return _Plan(lead, tuple(chunks))


def _lead(columns_BCK: Tensor) -> int:
    parts_BK = columns_BCK[:, END] != columns_BCK[:, END, :1]
    length = parts_BK.shape[1]
    return int(torch.where(parts_BK.any(dim=1), parts_BK.int().argmax(dim=1), length).min())


def _mask(columns_BCK: Tensor, chunk: _Chunk, window: int | None, dtype: torch.dtype) -> Tensor:
    keys_BCK = columns_BCK[:, :, : chunk.num_keys] if chunk.key_K is None else columns_BCK[:, :, chunk.key_K]
    return _added(sees(columns_BCK[:, :, chunk.first : chunk.stop], keys_BCK, window=window), dtype)


def _added(seen_BQK: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen_BQK.shape, dtype=dtype, device=seen_BQK.device).masked_fill_(~seen_BQK, -torch.inf)
