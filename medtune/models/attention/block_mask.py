"""The mask of flex_attention, made from the columns of a row alone.

torch's `create_block_mask` asks every token about every other one first (2.6 GB for a row of 16,384 tokens). Here two
blocks of tokens are compared by their smallest and largest numbers, so that a row of N blocks costs N x N comparisons.

Shape legend: B rows, C columns, K tokens, N blocks.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import pad

from medtune.models.attention.columns import BLOCK, END, NO_BLOCK, PLACE, RANK

WIDTH = 128
"""Tokens of a block. Source: torch.nn.attention.flex_attention, `_DEFAULT_SPARSE_BLOCK_SIZE`."""
_FAR = 2**40


def block_mask(columns_BCK: Tensor, *, window: int | None = None) -> BlockMask:
    """Returns flex_attention's mask of whole rows, whose tokens are in the order of their ranks, counted from 0.

    A pair of blocks is left out where no key of it can be seen, and full where each query sees each key. In all others
    the kernel asks for single tokens.

    Args:
        columns_BCK: The columns, int64.
        window: The number of places over which the attention slides; None for all.
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
