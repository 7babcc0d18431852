"""A small 3D ResNet for training from random weights: a dense layer over all voxels with convolutions beside it.

Shape legend: B volumes, X, Y, Z voxels, D feature width.
"""

import math
from dataclasses import dataclass

from monai.networks.blocks.segresnet_block import ResBlock
from torch import Tensor, nn

from medtune.models.towers import Size, Tower, patch_grid
from medtune.models.towers.convolutions import with_right_gradients


@dataclass(frozen=True, slots=True)
class ResNet3DConfig:
    """The sizes of the tower."""

    size: tuple[int, int, int]  # Number of voxels along X, Y and Z; the dense layers fit only this size.
    patch: int = 2  # Number of voxels along each side of a cell of the convolutions.
    channels: int = 16  # Number of channels of the convolutions, a multiple of 4.
    blocks: int = 1
    width: int = 96
    # Number of features along each axis. Each feature depends on the whole volume; the grid only gives projectors the
    # shape that they expect.
    grid: tuple[int, int, int] = (2, 2, 2)

    @property
    def cells(self) -> int:
        """The number of cells of the convolutions."""
        return math.prod(side // self.patch for side in self.size)


class ResNet3D(nn.Module):
    """A tower that maps volumes (B, 1, X, Y, Z) to features (B, *grid, D).

    Each feature depends on the whole volume, so that it can say *where* something lies. The attention of a language
    model would hardly learn that in a short training. A dense layer alone learns fastest; the convolutions therefore
    start with an output of zero, which is added to that of the dense layer.
    """

    def __init__(self, config: ResNet3DConfig) -> None:
        super().__init__()
        self.config = config
        width = math.prod(config.grid) * config.width
        self.dense = nn.Linear(math.prod(config.size), width)
        self.stem = nn.Conv3d(1, config.channels, config.patch, stride=config.patch)
        # Batch norms would stay in evaluation mode (see `VisionLanguageModel.train`), where they need statistics that
        # an untrained tower does not have.
        norm = ("group", {"num_groups": 4})
        self.blocks = nn.Sequential(*(ResBlock(3, config.channels, norm) for _ in range(config.blocks)))
        self.activation = nn.GELU()
        self.residual = nn.Linear(config.cells * config.channels, width)
        nn.init.zeros_(self.residual.weight)
        nn.init.zeros_(self.residual.bias)
        with_right_gradients(self)

    def forward(self, volume_B1XYZ: Tensor) -> Tensor:
        """Returns features (B, *grid, D)."""
        if tuple(volume_B1XYZ.shape[2:]) != self.config.size:
            raise ValueError(f"a volume of {tuple(volume_B1XYZ.shape[2:])}, the tower takes {self.config.size}")
        cells = self.activation(self.blocks(self.stem(volume_B1XYZ)))
        whole = self.dense(volume_B1XYZ.flatten(1)) + self.residual(cells.flatten(1))
        features: Tensor = whole.unflatten(1, (*self.config.grid, self.config.width))
        return features


def tower(size: Size) -> Tower:
    """Returns the tower for volumes of shape (1, *size)."""
    config = ResNet3DConfig(size)
    patch_grid("resnet3d", size, patch=config.patch)
    return Tower(lambda: ResNet3D(config), config.width, config.grid)
