"""The attention of decoders that read trees: who sees whom as integers, a few for each token, and what computes it.

The nodes of a tree are numbered depth first, so that a node's descendants are the run of ranks that ends before its
`end`. A token q then sees a token k exactly if

    rank[k] <= rank[q] < end[k]

whatever the order of the tokens in memory. One rule thus serves trees, several trees in a row, padding, and replies
that grow behind their tree. Some models read further columns: a window counts the `place` of a token in its own
sequence, and tokens of one `block` (an image of Gemma 3) see one another both ways.

The attention is registered with transformers under a name, and given to a model by it. On CPUs it is exact, in chunks.
transformers hands any mask of four axes to its layers as it is, and each layer hands it to the attention function of
its configuration. Columns therefore travel as an int64 tensor (B, 1, C, K), and on a GPU as a mask of flex_attention.
The maker of masks is registered, too: without one, transformers would drop masks of two axes in silence.
For the latter, torch's `create_block_mask` asks every token about every other one first (2.6 GB for a row of 16,384
tokens). Here two blocks of tokens are compared by their smallest and largest numbers, so that a row of N blocks costs
N x N comparisons.

Shape legend: B rows, H heads, G key heads, C columns, L tokens, Q queries, K keys, N blocks, D head width.

Source: transformers 5.23, masking_utils.py, `_preprocess_mask_arguments`.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.weak import WeakIdKeyDictionary
from transformers import PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

RANK, END, PLACE, BLOCK = range(4)
"""The columns in their order. A model that needs one takes all columns before it, too."""
NO_BLOCK = -1
PADDING = -1
"""The place of a padding token, which sees itself alone and is seen by no other."""

SHORTEST_CHUNK, LONGEST_CHUNK = 64, 256
"""The fewest and the most queries that are meant to share a mask; half as many more do where a branch then ends."""
_QUERIES_OF_A_COPY = 60
"""What copying a key for a chunk costs, in queries that read the key.

Of T queries behind P keys, each reads the chunk's own T keys too, and each chunk copies P + T keys: the cost of a query
is least where T is the root of this number times P. Measured with one thread of a CPU with AVX2, with the backward
pass: 64 to 96 queries behind 90 keys, 96 to 128 behind 280, 256 and more behind 1,100.
"""
_KEPT_BYTES = 64 * 2**20
"""The size up to which all masks of a pass are kept, so that its layers do not make them again."""
_GATHERED_BELOW = 0.75
"""The share of the keys below which those that a chunk sees are copied together."""

# All layers of a pass get the same tensor of columns.
_plans: WeakIdKeyDictionary = WeakIdKeyDictionary()
WIDTH = 128
"""Tokens of a block. Source: torch.nn.attention.flex_attention, `_DEFAULT_SPARSE_BLOCK_SIZE`."""
_FAR = 2**40
NAME = "medtune_tree"
_KERNEL_WIDTH = 16
"""The least head width of flex_attention's kernels on a GPU.

Source: torch 2.15.0, torch/_inductor/kernel/flex/flex_attention.py.
"""
_UNKNOWN = ("softcap", "s_aux", "position_bias")
"""Arguments of attention functions that change the scores in ways that are not computed here."""
Carried = Tensor | BlockMask | dict[str, Tensor | BlockMask]
"""What a decoder gets as its attention mask; by type of layer where its layers differ."""


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


class _Chunk(NamedTuple):
    first: int
    stop: int
    num_keys: int
    key_K: Tensor | None
    mask_B1QK: Tensor | None


class _Plan(NamedTuple):
    lead: int
    chunks: tuple[_Chunk, ...]
    key_K: Tensor | None  # The keys of all chunks that have some of their own, which are copied at once.


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
    settings: dict[str, Any] = {
        "dropout_p": dropout, "scale": scale, "enable_gqa": q_BHQD.shape[1] != k_BGKD.shape[1]
    }  # fmt: skip
    queries = q_BHQD.split([*([plan.lead] if plan.lead else ()), *(c.stop - c.first for c in plan.chunks)], dim=2)
    parts = []
    if plan.lead:
        k, v = (each[:, :, : plan.lead] for each in (k_BGKD, v_BGKD))
        parts.append(scaled_dot_product_attention(queries[0], k, v, is_causal=True, **settings))
    copied = _copied(k_BGKD, v_BGKD, plan)
    for q, chunk in zip(queries[len(parts) :], plan.chunks, strict=True):
        if chunk.key_K is None:
            k, v = k_BGKD[:, :, : chunk.num_keys], v_BGKD[:, :, : chunk.num_keys]
        else:
            k, v = next(copied)
        mask_B1QK = chunk.mask_B1QK
        if mask_B1QK is None:
            mask_B1QK = _mask(columns_B1CK.squeeze(1), chunk, window, q.dtype)
        parts.append(scaled_dot_product_attention(q, k, v, attn_mask=mask_B1QK, **settings))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _copied(k_BGKD: Tensor, v_BGKD: Tensor, plan: _Plan) -> Iterator[tuple[Tensor, Tensor]]:
    """Returns the keys and values of each chunk that has some of its own."""
    if plan.key_K is None:
        return iter(())
    counts = [len(chunk.key_K) for chunk in plan.chunks if chunk.key_K is not None]
    k, v = (each.index_select(2, plan.key_K).split(counts, dim=2) for each in (k_BGKD, v_BGKD))
    return zip(k, v, strict=True)


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
        known[key] = _additive_mask(seen_BQK, q_BHQD.dtype).repeat(1, 1, shared, 1)
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
    branch_ends = _branch_ends(columns_BCK)
    stop = lead
    while stop < length:
        first, stop = stop, _end_of_chunk(columns_BCK, stop, branch_ends, window=window)
        # Without blocks a row is in the order of its ranks, and nothing behind a chunk is seen.
        num_keys = length if has_blocks else stop
        seen_BQK = sees(columns_BCK[:, :, first:stop], columns_BCK[:, :, :num_keys], window=window)
        # As numbers: torch looks for the largest of bytes in a twentieth of the time that it takes for `any`.
        used_K = seen_BQK.view(torch.uint8).amax(dim=(0, 1))
        key_K = used_K.nonzero()[:, 0]
        chunk = _Chunk(first, stop, num_keys, key_K if len(key_K) < _GATHERED_BELOW * num_keys else None, None)
        mask_B1QK = _additive_mask(seen_BQK if chunk.key_K is None else seen_BQK.index_select(2, chunk.key_K), dtype)
        kept += mask_B1QK.nbytes
        chunks.append(chunk._replace(mask_B1QK=mask_B1QK if kept <= _KEPT_BYTES else None))
    copied = [chunk.key_K for chunk in chunks if chunk.key_K is not None]
    return _Plan(lead, tuple(chunks), torch.cat(copied) if copied else None)


def _branch_ends(columns_BCK: Tensor) -> list[int]:
    """Returns the places at which a branch of a row ends, in their order."""
    is_end_BK = columns_BCK[:, END, :-1] == columns_BCK[:, RANK, 1:]
    return [*(is_end_BK.any(dim=0).nonzero()[:, 0] + 1).tolist(), columns_BCK.shape[2]]


def _end_of_chunk(columns_BCK: Tensor, first: int, branch_ends: Sequence[int], *, window: int | None) -> int:
    """Returns where a chunk of queries ends, which is near its best length and where possible between two branches.

    The other branches of a chunk are keys that a query does not see, and reads for nothing.
    """
    length = columns_BCK.shape[2]
    seen_BQK = sees(columns_BCK[:, :, first : first + 1], columns_BCK[:, :, :first], window=window)
    best = math.isqrt(_QUERIES_OF_A_COPY * int(seen_BQK.sum(dim=2).max()))
    best = min(max(best, SHORTEST_CHUNK), LONGEST_CHUNK)
    near = branch_ends[bisect_right(branch_ends, first + best // 2) : bisect_right(branch_ends, first + best * 3 // 2)]
    return min(near, key=lambda end: abs(end - first - best), default=min(first + best, length))


def _lead(columns_BCK: Tensor) -> int:
    parts_BK = columns_BCK[:, END] != columns_BCK[:, END, :1]
    length = parts_BK.shape[1]
    return int(torch.where(parts_BK.any(dim=1), parts_BK.int().argmax(dim=1), length).min())


def _mask(columns_BCK: Tensor, chunk: _Chunk, window: int | None, dtype: torch.dtype) -> Tensor:
    keys_BCK = columns_BCK[:, :, : chunk.num_keys] if chunk.key_K is None else columns_BCK[:, :, chunk.key_K]
    return _additive_mask(sees(columns_BCK[:, :, chunk.first : chunk.stop], keys_BCK, window=window), dtype)


def _additive_mask(seen_BQK: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a mask (B, 1, Q, K) that is added to the scores."""
    # 1 - 1 / 1 and 1 - 1 / 0: 0 and minus infinity, in half the time of a filled mask.
    return seen_BQK.to(dtype).reciprocal_().neg_().add_(1).unsqueeze(1)


def block_mask(columns_BCK: Tensor, *, window: int | None = None) -> BlockMask:
    """Returns flex_attention's mask of whole rows, whose tokens are in the order of their ranks, counted from 0.

    A pair of blocks is left out where no key of it can be seen, and full where each query sees each key. In all others
    the kernel asks for single tokens.
    """
    length = columns_BCK.shape[2]
    number = -(-length // WIDTH)
    first_N = torch.arange(number, device=columns_BCK.device) * WIDTH
    last_N = (first_N + WIDTH - 1).clamp(max=length - 1)
    is_whole_N = first_N + WIDTH <= length
    low_end_BN, high_end_BN = _range(columns_BCK[:, END], number, empty=(_FAR, 0))
    some_BNN = (first_N <= last_N[:, None]) & (high_end_BN[:, None] > first_N[:, None])
    full_BNN = (last_N <= first_N[:, None]) & (low_end_BN[:, None] > last_N[:, None])
    full_BNN &= is_whole_N & is_whole_N[:, None]
    if window is not None:
        near_BN, far_BN = _range(columns_BCK[:, PLACE], number, empty=(_FAR, -_FAR))
        some_BNN &= near_BN[:, :, None] - far_BN[:, None] < window
        full_BNN &= far_BN[:, :, None] - near_BN[:, None] < window
    if columns_BCK.shape[1] > BLOCK:
        # Images are numbered in the order of the row, so that two blocks share one where their ranges meet.
        image_BK = columns_BCK[:, BLOCK]
        low_BN, _ = _range(image_BK.masked_fill(image_BK == NO_BLOCK, _FAR), number, empty=(_FAR, 0))
        _, high_BN = _range(image_BK, number, empty=(0, NO_BLOCK))
        some_BNN |= (low_BN[:, None] <= high_BN[:, :, None]) & (low_BN[:, :, None] <= high_BN[:, None])
    return BlockMask.from_kv_blocks(
        *_listed(some_BNN & ~full_BNN),
        *_listed(full_BNN),
        BLOCK_SIZE=WIDTH,
        mask_mod=_mask_mod(columns_BCK, window),
        seq_lengths=(length, length),
    )


def _range(values_BK: Tensor, number: int, *, empty: tuple[int, int]) -> tuple[Tensor, Tensor]:
    missing = number * WIDTH - values_BK.shape[1]
    low, high = (pad(values_BK, (0, missing), value=each).unflatten(1, (number, WIDTH)) for each in empty)
    return low.amin(dim=2), high.amax(dim=2)


def _listed(blocks_BNN: Tensor) -> tuple[Tensor, Tensor]:
    index = blocks_BNN.to(torch.int8).argsort(dim=-1, descending=True, stable=True).to(torch.int32)
    return blocks_BNN.sum(-1, dtype=torch.int32).unsqueeze(1).contiguous(), index.unsqueeze(1).contiguous()


def _mask_mod(columns_BCK: Tensor, window: int | None) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    has_blocks = columns_BCK.shape[1] > BLOCK

    def mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        rank = columns_BCK[b, RANK, q]
        seen = (columns_BCK[b, RANK, k] <= rank) & (rank < columns_BCK[b, END, k])
        if window is not None:
            seen = seen & (columns_BCK[b, PLACE, q] - columns_BCK[b, PLACE, k] < window)
        if has_blocks:
            image = columns_BCK[b, BLOCK, q]
            seen = seen | ((columns_BCK[b, BLOCK, k] == image) & (image != NO_BLOCK))
        return seen

    return mod


def take_columns(language: nn.Module) -> None:
    """Makes a decoder read columns as its attention mask, in place; masks of two axes keep their meaning."""
    assert isinstance(language, PreTrainedModel)
    language.set_attn_implementation(NAME)
    config: Any = language.config.get_text_config()
    if config._attn_implementation != NAME:
        raise ValueError(
            f"the language model {type(language).__name__} computes its attention in a way of its own, so that "
            "sequences cannot share a row; choose a language model of transformers that takes attention functions"
        )


def carried(config: Any, columns_BCK: Tensor, *, is_plain: bool, is_whole: bool, blocks: bool = False) -> Carried:
    """Returns the attention mask that shows a decoder who sees whom.

    Args:
        is_plain: Whether each row holds one sequence alone.
        is_whole: Whether the decoder reads whole rows, and not the continuation of some.
        blocks: Whether the tokens of an image see one another both ways.
    """
    window = getattr(config, "sliding_window", None)
    number = BLOCK + 1 if blocks else PLACE + 1 if window else PLACE
    if is_plain and is_whole and number == PLACE:
        # One column alone says that a token sees all before it, which every fast kernel can do.
        return columns_BCK[:, None, :1]
    columns_BCK = columns_BCK[:, :number].contiguous()
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if columns_BCK.device.type == "cuda" and is_whole and width >= _KERNEL_WIDTH:
        return kernel_masks(config, columns_BCK)
    mask = columns_BCK.unsqueeze(1)
    return {"full_attention": mask, "sliding_attention": mask} if blocks else mask


def kernel_masks(config: Any, columns_BCK: Tensor) -> Carried:
    """Returns the masks of flex_attention for whole rows, one for each type of layer."""
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) < 2 and columns_BCK.shape[1] <= BLOCK:
        return block_mask(columns_BCK, window=None if kinds == {"full_attention"} else window)
    return {"full_attention": block_mask(columns_BCK), "sliding_attention": block_mask(columns_BCK, window=window)}


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | BlockMask | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Returns the attention's outputs (B, Q, H, D), as transformers' layers expect them.

    Columns are int64. Any other tensor, such as the mask of cross-attention, goes to torch's attention.
    """
    if unknown := [name for name in _UNKNOWN if kwargs.get(name) is not None]:
        raise ValueError(
            f"{type(module).__name__} changes its scores by {unknown[0]}, which trees of tokens do not know; choose "
            "another language model"
        )
    if isinstance(attention_mask, BlockMask):
        return flex_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
        )
    if attention_mask is None or attention_mask.dtype != torch.int64:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if attention_mask.shape[2] == 1:
        causal = {**kwargs, "is_causal": True}
        return sdpa_attention_forward(module, query, key, value, None, dropout=dropout, scaling=scaling, **causal)
    if query.shape[2] == key.shape[2]:
        made = chunked(query, key, value, attention_mask, scale=scaling, dropout=dropout, window=sliding_window)
    else:
        made = continued(query, key, value, attention_mask, scale=scaling, window=sliding_window)
    return made.transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
