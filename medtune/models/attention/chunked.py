"""Attention over the tokens that the columns show, a chunk of queries at a time; exact, and for CPUs.

The tokens that all sequences of a row share, which come first, need no mask at all. The others are read in chunks, each
with the keys alone that some token of the chunk sees: other branches cost nothing.

Shape legend: B rows, H heads, G key heads, C columns, Q queries, K keys, D head width.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.weak import WeakIdKeyDictionary

from medtune.models.attention.columns import BLOCK, END, sees

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
        q_BHQD: The queries, one for each token.
        k_BGKD: The keys.
        v_BGKD: The values.
        columns_B1CK: The columns of the tokens, in the order of their ranks; the same tensor for all layers of a pass.
        scale: The factor of the scores; None takes one over the square root of D.
        dropout: The share of the weights that are dropped.
        window: The number of places over which the attention slides; None for all.
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
