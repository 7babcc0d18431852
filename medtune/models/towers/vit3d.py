"""A small 3D vision transformer of M3D-CLIP's architecture, which can be trained from random weights."""

from medtune.models.towers import Size, Tower, patch_grid
from medtune.models.towers.m3d_vit import M3DViT, M3DViTConfig

WIDTH = 96
PATCH = 2


def tower(size: Size) -> Tower:
    """Returns the tower for volumes of shape (1, *size)."""
    grid = patch_grid("vit3d", size, patch=PATCH)
    config = M3DViTConfig(size, (PATCH,) * 3, WIDTH, 2 * WIDTH, depth=4, heads=4)
    return Tower(lambda: M3DViT(config), WIDTH, grid)
