"""Who sees whom as integers, a few for each token, instead of a mask of every token against every other.

The nodes of a tree are numbered depth first, so that a node's descendants are the run of ranks that ends before its
`end`. A token q then sees a token k exactly if

    rank[k] <= rank[q] < end[k]

whatever the order of the tokens in memory. One rule thus serves trees, several trees in a row, padding, and replies
that grow behind their tree. Some models read further columns: a window counts the `place` of a token in its own
sequence, and tokens of one `block` (an image of Gemma 3) see one another both ways.

Shape legend: B rows, C columns, L tokens, Q queries, K keys.
"""

from torch import Tensor

RANK, END, PLACE, BLOCK = range(4)
"""The columns in their order. A model that needs one takes all columns before it, too."""
NO_BLOCK = -1
PADDING = -1
"""The place of a padding token, which sees itself alone and is seen by no other."""


def sees(query_BCQ: Tensor, key_BCK: Tensor, *, window: int | None) -> Tensor:
    """Returns bool (B, Q, K), True where a query sees a key.

    Args:
        query_BCQ: The columns of the queries; tokens of a block see one another where there is a column of blocks.
        key_BCK: The columns of the keys.
        window: The number of places over which a layer's attention slides, the token's own included; None for all.

    Source:
        transformers, masking_utils.py, `create_sliding_window_causal_mask` (a block is seen beyond the window).
    """
    q, k = query_BCQ.unsqueeze(3), key_BCK.unsqueeze(2)
    seen_BQK = (k[:, RANK] <= q[:, RANK]) & (q[:, RANK] < k[:, END])
    if window is not None:
        seen_BQK &= q[:, PLACE] - k[:, PLACE] < window
    if query_BCQ.shape[1] > BLOCK:
        seen_BQK |= (k[:, BLOCK] == q[:, BLOCK]) & (q[:, BLOCK] != NO_BLOCK)
    return seen_BQK
