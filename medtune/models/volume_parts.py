"""Towers and projectors by name, in sizes that train from nothing: any tower with any projector.

Source: the seed paper's section 4.2b compares such pairs; the blocks are those of the published models, the sizes ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from medtune.data.catalog import nearest
from medtune.models.projectors import flat
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.vision3d.ctvit import CTViT, CTViTConfig
from medtune.models.vision3d.m3d_vit import M3DViT, M3DViTConfig
from medtune.models.vision3d.merlin_resnet import MerlinResNet, MerlinResNetConfig

Size = tuple[int, int, int]
_WIDTH = 96
_QUERIES = 32
_HEADS = 4
_HEAD_WIDTH = 24
_POOL = 2


@dataclass(frozen=True, slots=True)
class Tower:
    """A tower to build.

    Attributes:
        width: Of its features.
        grid: Features along each axis of the volume.
    """

    build: Callable[[], nn.Module]
    width: int
    grid: Size


@dataclass(frozen=True, slots=True)
class Projector:
    """A projector to build for an embedding width."""

    build: Callable[[int], nn.Module]
    num_tokens: int


def tower(name: str, size: Size) -> Tower:
    """Returns the tower of that name for volumes (1, *size); the axes are the volume's own.

    Raises:
        ValueError: There is no such tower, or the size does not split into its patches.
    """
    if name not in TOWERS:
        raise ValueError(f"model.vision: no {name!r}.{nearest(name, TOWERS)} There are: {', '.join(TOWERS)}")
    return TOWERS[name](size)


def projector(name: str, over: Tower) -> Projector:
    """Returns the projector of that name for a tower's features.

    Raises:
        ValueError: There is no such projector, or it needs a larger grid.
    """
    if name not in PROJECTORS:
        raise ValueError(f"model.projector: no {name!r}.{nearest(name, PROJECTORS)} There are: {', '.join(PROJECTORS)}")
    return PROJECTORS[name](over)


def _resnet(layers: Size, last: int) -> Callable[[Size], Tower]:
    def build(size: Size) -> Tower:
        config = MerlinResNetConfig((*layers, last), (8, 16, 24, _WIDTH // 4))
        # The stem halves the slice plane and pools every axis; three stages halve every axis again. Depth comes first.
        height, width, depth = (math.ceil(side / factor) for side, factor in zip(size, (32, 32, 16), strict=True))
        return Tower(lambda: MerlinResNet(config), config.width, (depth, height, width))

    return build


def _grid(name: str, size: Size, patch: Size) -> Size:
    if any(side % part for side, part in zip(size, patch, strict=True)):
        raise ValueError(f"model.vision: {name} splits volumes into patches of {patch}; {size} does not divide")
    first, second, third = (side // part for side, part in zip(size, patch, strict=True))
    return first, second, third


def _vit(size: Size) -> Tower:
    patch = (8, 8, 8)
    config = M3DViTConfig(size, patch, _WIDTH, 2 * _WIDTH, depth=4, heads=_HEADS)
    return Tower(lambda: M3DViT(config), _WIDTH, _grid("vit3d", size, patch))


def _ctvit(size: Size) -> Tower:
    patch = (8, 8, 8)
    config = CTViTConfig(patch, _WIDTH, 2, 2, _HEADS, _HEAD_WIDTH, mlp_width=_WIDTH * 8 // 3, codes=1024)
    return Tower(lambda: CTViT(config), _WIDTH, _grid("ctvit", size, patch))


def _spatial_pool(over: Tower) -> Projector:
    if min(over.grid) < _POOL:
        raise ValueError(
            f"model.projector: spatial_pool needs a grid of at least {_POOL} on each side, not {over.grid}"
        )
    num_tokens = math.prod(side // _POOL for side in over.grid)
    return Projector(lambda width: SpatialPoolProjector(over.width, width, pool=_POOL), num_tokens)


def _perceiver(over: Tower) -> Projector:
    config = PerceiverConfig(over.width, 2, _HEADS, _HEAD_WIDTH, _QUERIES)
    return Projector(lambda width: PerceiverProjector(config, width), config.num_tokens)


def _coca(over: Tower) -> Projector:
    config = CoCaConfig(over.width, _HEADS, _QUERIES)
    return Projector(lambda width: CoCaProjector(config, width), config.queries)


TOWERS: dict[str, Callable[[Size], Tower]] = {
    "resnet3d": _resnet((1, 1, 1), 1),
    "vit3d": _vit,
    "ctvit": _ctvit,
    "merlin_resnet": _resnet((3, 4, 6), 3),
}
PROJECTORS: dict[str, Callable[[Tower], Projector]] = {
    "linear": lambda over: Projector(lambda width: flat.linear(over.width, width), math.prod(over.grid)),
    "mlp": lambda over: Projector(lambda width: flat.mlp(over.width, width), math.prod(over.grid)),
    "spatial_pool": _spatial_pool,
    "perceiver": _perceiver,
    "coca": _coca,
}
