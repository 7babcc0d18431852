"""Towers and projectors by name, in sizes that train from nothing: any tower with any projector.

Source: the seed paper's section 4.2b compares such pairs; the blocks are those of the published models, the sizes ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from medtune.data.catalog import nearest
from medtune.models.projectors import flat
from medtune.models.projectors.coca import CoCaConfig, CoCaProjector
from medtune.models.projectors.perceiver import PerceiverConfig, PerceiverProjector
from medtune.models.projectors.spatial_pool import SpatialPoolProjector
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.towers.m3d_vit import M3DViT, M3DViTConfig
from medtune.models.towers.merlin_resnet import MerlinResNet, MerlinResNetConfig
from medtune.models.towers.small_resnet import SmallResNet, SmallResNetConfig

Size = tuple[int, int, int]
_WIDTH = 96
_QUERIES = 32
_HEADS = 4
_HEAD_WIDTH = 24
_POOL = 2
_PATCH = 2


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


class Bridged(NamedTuple):
    """A tower with the projector that takes its features."""

    tower: Tower
    projector: Projector


def bridged(vision: str, joint: str, size: Size) -> Bridged:
    """Returns a tower and a projector by their names, for volumes (1, *size).

    Raises:
        ValueError: There is no such part, or the two do not fit.
    """
    eyes = tower(vision, size)
    return Bridged(eyes, projector(joint, eyes))


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


def _small_resnet(size: Size) -> Tower:
    _grid("resnet3d", size)
    config = SmallResNetConfig(size, _PATCH, width=_WIDTH)
    return Tower(lambda: SmallResNet(config), _WIDTH, config.grid)


def _merlin_resnet(size: Size) -> Tower:
    config = MerlinResNetConfig((3, 4, 6, 3), (8, 16, 24, _WIDTH // 4))
    # The stem halves the slice plane and pools every axis; three stages halve every axis again. Depth comes first. A
    # small volume is enlarged, so that a grid is left.
    factor = math.ceil(max(_POOL * by / side for side, by in zip(size, (32, 32, 16), strict=True)))
    height, width, depth = (math.ceil(factor * side / by) for side, by in zip(size, (32, 32, 16), strict=True))
    return Tower(
        lambda: nn.Sequential(nn.Upsample(scale_factor=factor), MerlinResNet(config)),
        config.width,
        (depth, height, width),
    )


def _grid(name: str, size: Size) -> Size:
    if any(side % _PATCH for side in size):
        raise ValueError(f"model.vision: {name} splits volumes into patches of {_PATCH}; {size} does not divide")
    first, second, third = (side // _PATCH for side in size)
    return first, second, third


def _vit(size: Size) -> Tower:
    grid = _grid("vit3d", size)
    config = M3DViTConfig(size, (_PATCH,) * 3, _WIDTH, 2 * _WIDTH, depth=4, heads=_HEADS)
    return Tower(lambda: M3DViT(config), _WIDTH, grid)


def _ctvit(size: Size) -> Tower:
    grid = _grid("ctvit", size)
    patch = (_PATCH,) * 3
    config = CTViTConfig(patch, _WIDTH, 2, 2, _HEADS, _HEAD_WIDTH, mlp_width=_WIDTH * 8 // 3, codes=1024)
    return Tower(lambda: CTViT(config), _WIDTH, grid)


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
    "resnet3d": _small_resnet,
    "vit3d": _vit,
    "ctvit": _ctvit,
    "merlin_resnet": _merlin_resnet,
}
PROJECTORS: dict[str, Callable[[Tower], Projector]] = {
    "linear": lambda over: Projector(lambda width: flat.linear(over.width, width), math.prod(over.grid)),
    "mlp": lambda over: Projector(lambda width: flat.mlp(over.width, width), math.prod(over.grid)),
    "spatial_pool": _spatial_pool,
    "perceiver": _perceiver,
    "coca": _coca,
}
