"""Merlin's tower: a ResNet-152 whose 2D kernels were inflated to 3D.

Shape legend: B volumes, H, W, Z voxels along right, anterior and superior; z, h, w the feature map's sides, D width.

Source: StanfordMIMI/Merlin@2489a96b, merlin-vlm 0.0.7; checked against tests/golden/merlin-vision.json.
"""

import math
from dataclasses import dataclass

from einops import repeat
from monai.networks.nets.resnet import ResNet, ResNetBottleneck
from torch import Tensor, nn

from medtune.models.towers import Size, Tower
from medtune.models.towers.convolutions import with_right_gradients

_SHRINKS = (32, 32, 16)
"""Number of voxels along right, anterior and superior that become one feature."""
_LEAST_GRID = 2


@dataclass(frozen=True, slots=True)
class MerlinResNetConfig:
    """The sizes of the tower; the defaults are those of the release's backbone."""

    layers: tuple[int, int, int, int] = (3, 8, 36, 3)  # Number of blocks in layer1 to layer4.
    # Inner width of layer1 to layer4; the output of each has four times as many channels.
    planes: tuple[int, int, int, int] = (64, 128, 256, 512)
    # Whether the tower returns one feature per volume, the mean over the map, instead of the whole map.
    pooled: bool = False

    @property
    def width(self) -> int:
        """The number of channels of the feature map."""
        return self.planes[-1] * 4


class MerlinResNet(nn.Module):
    """A tower that maps volumes (B, 1, H, W, Z) to features (B, z, h, w, D).

    In the release, a volume of 224 x 224 x 160 voxels becomes 10 x 7 x 7 features of width 2048.
    """

    def __init__(self, config: MerlinResNetConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or MerlinResNetConfig()
        self.net = ResNet(
            ResNetBottleneck,
            list(config.layers),
            list(config.planes),
            spatial_dims=3,
            n_input_channels=3,
            conv1_t_size=(3, 7, 7),
            conv1_t_stride=(1, 2, 2),
            shortcut_type="B",
            feed_forward=False,
            bias_downsample=False,
        )
        with_right_gradients(self)

    def forward(self, volume_B1HWZ: Tensor) -> Tensor:
        """Returns features_BzhwD; of shape (B, 1, 1, 1, D) where the configuration sets `pooled`."""
        net = self.net
        stem = net.maxpool(net.act(net.bn1(net.conv1(repeat(volume_B1HWZ, "b 1 h w z -> b 3 z h w")))))
        map_BDzhw: Tensor = net.layer4(net.layer3(net.layer2(net.layer1(stem))))
        if self.config.pooled:
            map_BDzhw = net.avgpool(map_BDzhw)
        return map_BDzhw.movedim(1, -1)


def tower(size: Size) -> Tower:
    """Returns a small Merlin tower, which can be trained from random weights, for volumes of shape (1, *size).

    A small volume is enlarged first, so that the grid has at least two features along each axis.
    """
    config = MerlinResNetConfig((3, 4, 6, 3), (8, 16, 24, 24))
    # The stem halves the slice plane and pools every axis; layer2 to layer4 halve every axis again. Depth comes first.
    factor = math.ceil(max(_LEAST_GRID * by / side for side, by in zip(size, _SHRINKS, strict=True)))
    height, width, depth = (math.ceil(factor * side / by) for side, by in zip(size, _SHRINKS, strict=True))
    return Tower(
        lambda: nn.Sequential(nn.Upsample(scale_factor=factor), MerlinResNet(config)),
        config.width,
        (depth, height, width),
    )
