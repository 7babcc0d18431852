"""Towers for images from the timm library, with the preparation of their pixels and the loading of their weights.

Shape legend: B images, C channels, H height, W width, N visual tokens, D feature width.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import PIL.Image
import timm
import torch
from numpy.typing import NDArray
from timm.layers import BatchNormAct2d
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse

from medtune.data.media.load import Shape, media_shape
from medtune.data.types import Image, Media, MediaKind, MediaRef, require_kind
from medtune.models.placing import is_on_the_host
from medtune.models.tuning.quantize import is_adapted


@dataclass(frozen=True, slots=True)
class ImageTransform:
    # Height and width of the input in pixels. The image is stretched to this square, so that relative positions in the
    # image do not change.
    size_px: int
    mean: tuple[float, float, float]  # Value that is subtracted from each RGB channel, on the scale from 0 to 1.
    std: tuple[float, float, float]  # Value by which each RGB channel is then divided.
    kinds: ClassVar[tuple[MediaKind, ...]] = ("image",)
    sampling: ClassVar[None] = None

    def shape(self, ref: MediaRef) -> Shape | None:
        return media_shape(ref)

    def __call__(self, media: Media) -> Tensor:
        """Returns the normalised pixels, float32, (3, size_px, size_px)."""
        resized = PIL.Image.fromarray(require_kind(media, Image).pixels_HWC).resize(
            (self.size_px, self.size_px), PIL.Image.Resampling.BICUBIC
        )
        pixels_HWC, levels_CV = np.asarray(resized), _levels(self.mean, self.std)
        return torch.from_numpy(np.stack([levels_CV[c].take(pixels_HWC[..., c]) for c in range(len(levels_CV))]))

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(items))


@cache
def _levels(mean: tuple[float, ...], std: tuple[float, ...]) -> NDArray[np.float32]:
    """Returns what each of the 256 values V of a channel C becomes; looking it up is thrice as fast as computing it."""
    values_V1 = np.arange(256, dtype=np.float32)[:, None] / np.float32(255)
    levels_VC = (values_V1 - np.array(mean, np.float32)) / np.array(std, np.float32)
    return np.ascontiguousarray(levels_VC.T)


class GridTower(nn.Module):
    """A timm network without its head, average-pooled to a square grid of features.

    In evaluation, one in float32 without adapters on a CPU, in a process that trains alone, is read with each norm
    folded into the convolution before it (half the time).
    """

    def __init__(self, backbone: nn.Module, *, grid: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = nn.AdaptiveAvgPool2d(grid)
        # In a list, so that it is no part of the tower's state.
        self._folded: list[nn.Module] = []
        self._folded_from: tuple[tuple[int, int], ...] = ()

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        """Returns features_BND with N = grid * grid, row by row from the upper left."""
        # Convolutions run faster with the channels innermost. Only the pixels are brought into that order, because
        # ZeRO-3 cannot shard weights in it.
        features_BDHW: Tensor = self.pool(self._network()(pixels_BCHW.contiguous(memory_format=torch.channels_last)))
        return features_BDHW.flatten(2).transpose(1, 2)

    def _network(self) -> nn.Module:
        state = [*self.backbone.parameters(), *self.backbone.buffers()]
        norms = [each for each in self.backbone.modules() if isinstance(each, BatchNormAct2d)]
        # Strategies change the weights of divided models in ways that no version counts.
        alone = not torch.distributed.is_initialized() and all(map(is_on_the_host, state))
        whole = alone and all(each.dtype in (torch.float32, torch.int64) for each in state)
        learns = torch.is_grad_enabled() or any(each.training for each in norms)
        # `fuse` follows no branches, and adapters have some.
        if not (norms and whole) or learns or any(map(is_adapted, self.backbone.modules())):
            return self.backbone
        folded_from = tuple((each.data_ptr(), each._version) for each in state)
        if folded_from != self._folded_from:
            self._folded, self._folded_from = [_without_norms(self.backbone)], folded_from
        return self._folded[0]


def _without_norms(network: nn.Module) -> nn.Module:
    copied = deepcopy(network)
    for name, norm in list(copied.named_modules()):
        if isinstance(norm, BatchNormAct2d):
            # `fuse` knows torch's own norm alone, not timm's with its activation inside.
            plain = nn.BatchNorm2d(norm.num_features, eps=norm.eps)
            plain.load_state_dict(norm.state_dict())
            copied.set_submodule(name, nn.Sequential(plain, norm.drop, norm.act))
    return fuse(copied.eval())


def timm_tower(architecture: str, *, grid: int) -> GridTower:
    """Returns a randomly initialised timm tower whose forward gives (B, grid * grid, features)."""
    return GridTower(timm.create_model(architecture, pretrained=False, num_classes=0, global_pool=""), grid=grid)


def load_by_name(tower: GridTower, tensors: dict[str, Tensor], *, left_out: tuple[str, ...], where: str) -> None:
    """Fills the backbone from tensors that have the same names."""
    wanted = {name: value for name, value in tensors.items() if not name.startswith(left_out)}
    own = tower.backbone.state_dict().keys()
    if own != wanted.keys():
        raise ValueError(
            f"{where}: missing {sorted(own - wanted.keys())[:5]}, not known {sorted(wanted.keys() - own)[:5]}"
        )
    tower.backbone.load_state_dict(wanted)


def load_by_order(backbone: nn.Module, tensors: dict[str, Tensor], *, where: str) -> None:
    """Fills a network from tensors that have other names but the same order and shapes.

    Further tensors behind the network's (a classification head) are left out.
    """
    own = backbone.state_dict()
    if len(tensors) < len(own):
        raise ValueError(f"{where}: {len(tensors)} tensors where the network has {len(own)}")
    renamed: dict[str, Tensor] = {}
    for (name, target), (source_name, value) in zip(own.items(), tensors.items(), strict=False):
        if target.shape != value.shape:
            raise ValueError(
                f"{where}: {source_name} is {tuple(value.shape)} where the network's {name} is {tuple(target.shape)}"
            )
        renamed[name] = value
    backbone.load_state_dict(renamed)
