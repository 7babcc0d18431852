"""Vision towers: pixels or voxels -> a grid of features. Each architecture is one module.

A module that defines `def tower(size: Size) -> Tower` is a tower that `model.vision` may name; the module's name is the
tower's name. The sizes are small enough to be trained from random weights, so that any tower goes with any projector.

Source: the seed paper's section 4.2b compares such pairs; the blocks are those of the published models, the sizes ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from torch import nn

from medtune.data import catalog

Size = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Tower:
    """A tower that can be built.

    Attributes:
        build: Returns the tower with random weights; it maps volumes (B, 1, *size) to features (B, *grid, width).
        width: Width of its features.
        grid: Number of features along each axis.
    """

    build: Callable[[], nn.Module]
    width: int
    grid: Size


def find_tower(name: str, size: Size) -> Tower:
    """Returns the tower of that name for volumes of shape (1, *size), whose axes are the volume's own.

    Raises:
        ValueError: There is no such tower, or the size does not split into its patches.
    """
    try:
        made = cast("Callable[[Size], Tower]", catalog.load(catalog.TOWERS, name))
        return made(size)
    except ValueError as error:
        raise ValueError(f"model.vision: {error}") from error


def patch_grid(name: str, size: Size, *, patch: int) -> Size:
    """Returns how many patches of `patch` voxels a side a volume has along each axis.

    Raises:
        ValueError: A side is no multiple of the patch.
    """
    if any(side % patch for side in size):
        raise ValueError(f"{name} splits volumes into patches of {patch}; {size} does not divide")
    first, second, third = (side // patch for side in size)
    return first, second, third
