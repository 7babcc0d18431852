"""Random rows of trees with images, and who sees whom in them, written down from the paths of the trees."""

import random

import torch
from torch import Tensor

from medtune.models.attention.columns import BLOCK, PLACE
from medtune.models.sequence.builder import IGNORED, Sequence, Span
from medtune.models.sequence.packing import PackedRows, Shown, pack
from medtune.models.sequence.tree import Tree, grow


def random_rows(seed: int, *, longest: int = 12) -> PackedRows:
    """Returns two rows of one to three trees each, in which branches leave one another in any order."""
    seeds = ([seed * 100 + 10 * row + n for n in range(1 + (seed + row) % 3)] for row in (0, 1))
    rows = [[Shown(_tree(each, longest), 0) for each in row] for row in seeds]
    return pack(rows, pad_id=0)


def _tree(seed: int, longest: int) -> Tree:
    draw = random.Random(seed)
    sequences = []
    for _ in range(draw.randint(2, 6)):
        before = [draw.randint(1, 2) for _ in range(draw.randint(1, 3))]
        ids = [*before, 0, 0, 0, 0, *(draw.randint(1, 2) for _ in range(draw.randint(1, longest)))]
        span = Span(len(before), len(before) + 4)
        sequences.append(Sequence(tuple(ids), (IGNORED,) * len(ids), tuple(range(len(ids))), (span,)))
    return grow(sequences, range(len(sequences)))


def many_branches(*, shared: int, branches: int, length: int) -> PackedRows:
    """Returns one row whose branches have that length and leave a shared beginning at its end."""
    sequences = []
    for number in range(branches):
        ids = (1,) * shared + (2 + number,) * length
        sequences.append(Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), ()))
    return pack([[Shown(grow(sequences, range(branches)), None)]], pad_id=0)


def dense(rows: PackedRows, *, window: int | None = None, blocks: bool = False) -> Tensor:
    """Returns bool (B, L, L), by the ends of runs one token at a time."""
    size, length = rows.ids_BL.shape
    seen_BLL = torch.zeros(size, length, length, dtype=torch.bool)
    ends, places, images = (rows.columns_BCL[:, column].tolist() for column in (1, PLACE, BLOCK))
    for row in range(size):
        path: list[int] = []
        for token in range(length):
            # A token's parent is the last one whose run is still open.
            path = [*(each for each in path if token < ends[row][each]), token]
            for each in path:
                near = window is None or places[row][token] - places[row][each] < window
                seen_BLL[row, token, each] = near
        if blocks:
            image_L = torch.tensor(images[row])
            seen_BLL[row] |= (image_L[:, None] == image_L) & (image_L >= 0)
    return seen_BLL
