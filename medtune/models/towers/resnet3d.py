"""A small 3D ResNet that learns from nothing: a dense layer over all voxels, and convolutions as its residual path.

Shape legend: B volumes, X, Y, Z voxels, D feature width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monai.networks.blocks.segresnet_block import ResBlock
from torch import Tensor, nn

from medtune.models.towers import Size, Tower, patch_grid


@dataclass(frozen=True, slots=True)
class ResNet3DConfig:
    """Sizes.

    Attributes:
        size: Voxels along X, Y and Z; the dense layers fit this size alone.
        patch: Voxels along each axis that make a cell of the convolutions.
        grid: How the tokens are arranged for projectors that want a grid; each of them has seen the whole volume.
    """

    size: tuple[int, int, int]
    patch: int = 2
    channels: int = 16
    blocks: int = 1
    width: int = 96
    grid: tuple[int, int, int] = (2, 2, 2)

    @property
    def cells(self) -> int:
        """Cells of the convolutions."""
        return math.prod(side // self.patch for side in self.size)


class ResNet3D(nn.Module):
    """Volumes (B, 1, X, Y, Z) -> features (B, *grid, D).

    A feature that has seen the whole volume can say *where* something lies; few steps hardly teach that to a language
    model's attention. The dense layer alone learns fastest: the convolutions begin as nothing and add to it.
    """

    def __init__(self, config: ResNet3DConfig) -> None:
        super().__init__()
        self.config = config
        width = math.prod(config.grid) * config.width
        self.dense = nn.Linear(math.prod(config.size), width)
        self.stem = nn.Conv3d(1, config.channels, config.patch, stride=config.patch)
        # Group norm: batch norms stay in evaluation mode, and there are no statistics to start from.
        norm = ("group", {"num_groups": 4})
        self.blocks = nn.Sequential(*(ResBlock(3, config.channels, norm) for _ in range(config.blocks)))
        self.activation = nn.GELU()
        self.residual = nn.Linear(config.cells * config.channels, width)
        nn.init.zeros_(self.residual.weight)
        nn.init.zeros_(self.residual.bias)

    def forward(self, volume_B1XYZ: Tensor) -> Tensor:
        """Returns features (B, *grid, D).

        Raises:
            ValueError: The volume has another size than the dense layers were made for.
        """
        if tuple(volume_B1XYZ.shape[2:]) != self.config.size:
            raise ValueError(f"a volume of {tuple(volume_B1XYZ.shape[2:])}, the tower takes {self.config.size}")
        cells = self.activation(self.blocks(self.stem(volume_B1XYZ)))
        whole = self.dense(volume_B1XYZ.flatten(1)) + self.residual(cells.flatten(1))
        features: Tensor = whole.unflatten(1, (*self.config.grid, self.config.width))
        return features


def tower(size: Size) -> Tower:
    """Returns the tower for volumes of shape (1, *size).

    Raises:
        ValueError: The size does not split into its patches.
    """
    config = ResNet3DConfig(size)
    patch_grid("resnet3d", size, patch=config.patch)
    return Tower(lambda: ResNet3D(config), config.width, config.grid)
