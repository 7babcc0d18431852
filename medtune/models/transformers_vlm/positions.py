"""Positions of visual tokens on three axes, time, row and column (M-RoPE), from the sizes that a processor gives."""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from medtune.models.sequence.builder import Placement

Positions = Callable[[Mapping[str, Tensor], Many[int]], tuple[Placement, ...]]
"""Returns the positions of an item's runs of visual tokens, given the processor's outputs for it and their lengths."""


class PatchGrid(NamedTuple):
    """The numbers of rows and columns of merged patches in an image or a frame."""

    rows: int
    columns: int


def on_grids(processor: Any, config: Any) -> Positions:
    """Returns the positions of Qwen-VL and GLM-4.xV.

    Qwen2-VL and Qwen2.5-VL write a video as one run of tokens. Its time axis counts pairs of frames in Qwen2-VL, and
    time units of the clip in Qwen2.5-VL. The others write each pair of frames as a run of its own.
    """
    tokens_per_s = getattr(config.vision_config, "tokens_per_second", None)
    return partial(_on_grids, merged=int(processor.image_processor.merge_size), tokens_per_s=tokens_per_s)


def _on_grids(
    made: Mapping[str, Tensor], lengths: Many[int], *, merged: int, tokens_per_s: float | None
) -> tuple[Placement, ...]:
    grid_13 = made["image_grid_thw"] if "image_grid_thw" in made else made["video_grid_thw"]
    times, height, width = (int(each) for each in grid_13[0])
    grid = PatchGrid(height // merged, width // merged)
    if len(lengths) == times:
        runs = (placed(grid, (0,)),) * times
    else:
        numbers = np.arange(times)
        if tokens_per_s is not None and "second_per_grid_ts" in made:
            # The times are rounded down in single precision, as in transformers.
            seconds = np.float32(made["second_per_grid_ts"][0].item())
            numbers = (numbers * np.float32(tokens_per_s * seconds)).astype(np.int64)
        runs = (placed(grid, tuple(numbers.tolist())),)
    if [len(run.offsets) for run in runs] != list(lengths):
        raise ValueError(
            f"the processor wrote runs of {list(lengths)} visual tokens for {times} pictures of {grid.rows} x "
            f"{grid.columns}, which have no positions; this architecture needs a family of its own"
        )
    return runs


def placed(grid: PatchGrid, times: tuple[int, ...]) -> Placement:
    """Returns the positions of a grid at each of the times, relative to the first visual token."""
    return Placement(
        offsets=tuple((t, row, column) for t in times for row in range(grid.rows) for column in range(grid.columns)),
        advance=max(grid),
    )


@lru_cache(maxsize=1024)
def in_a_row(count: int) -> Placement:
    """Returns positions that simply count the tokens."""
    return Placement(tuple(range(count)), count)
