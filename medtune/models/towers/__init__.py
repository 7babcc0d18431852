"""Vision towers, which turn pixels or voxels into a grid of features. Each architecture is one module.

A module that defines `def tower(size: Size) -> Tower` is a tower over volumes that `model.vision` may name; the
module's name is the tower's name. These towers start from random weights, and any of them can be combined with any
projector. `timm_tower` gives every image encoder of the timm library the same form, under the name timm:ENCODER.
Towers of published models are built at full size by their zoo entries.

Source: the seed paper's section 4.2b compares such pairs. The blocks are those of the published models; the small sizes
are medtune's own.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from medtune.data import catalog

Size = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Tower:
    """A tower that can be built.

    Attributes:
        build: Returns the tower with random weights, a module that maps its input to features (B, *grid, width). The
            input is a batch of volumes (B, 1, *size), or of pictures (B, pictures, 3, height, width).
        grid: Number of features along each axis; the first axis counts pictures where the input is pictures.
        load: Returns the tower with pretrained weights, and their origin in words; None where there are none.
    """

    build: Callable[[], nn.Module]
    width: int
    grid: Size
    load: Callable[[], tuple[nn.Module, str]] | None = None


def find_tower(name: str, size: Size) -> Tower:
    """Returns the tower of that name for volumes of shape (1, *size)."""
    try:
        return catalog.made(catalog.TOWERS, name, Tower, size)
    except ValueError as error:
        raise ValueError(f"model.vision: {error}") from error


def patch_grid(name: str, size: Size, *, patch: int) -> Size:
    """Returns the number of patches along each axis of a volume.

    Args:
        name: Name of the tower, for the message.
        size: Voxels along each axis of the volume.
        patch: Voxels along each side of a patch.
    """
    if any(side % patch for side in size):
        raise ValueError(f"{name} splits volumes into patches of {patch}; {size} does not divide")
    first, second, third = (side // patch for side in size)
    return first, second, third
