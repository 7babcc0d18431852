"""A small 3D vision transformer of M3D-CLIP's architecture, which can be trained from random weights.

M3D-CLIP's own tower is MONAI's vision transformer over volumes whose first axis is the depth. The features are the
patch tokens behind its final norm.

Shape legend: B volumes, Z depth, H height, W width in voxels; z, h, w the same in patches; N = z * h * w tokens,
D feature width.

Source: BAAI-DCAI/M3D@63e72005 (select_layer -1, select_feature "patch"); checked against tests/golden/m3d-vision.json.
"""

from dataclasses import dataclass

from monai.networks.nets.vit import ViT
from torch import Tensor, nn

from medtune.models.towers import Size, Tower, patch_grid

WIDTH = 96
PATCH = 2


def tower(size: Size) -> Tower:
    """Returns the tower for volumes of shape (1, *size)."""
    grid = patch_grid("vit3d", size, patch=PATCH)
    config = M3DViTConfig(size, (PATCH,) * 3, WIDTH, 2 * WIDTH, depth=4, heads=4)
    return Tower(lambda: M3DViT(config), WIDTH, grid)


@dataclass(frozen=True, slots=True)
class M3DViTConfig:
    """The sizes of the tower; the defaults are the release's."""

    # Depth, height and width of a volume, in voxels; the position table fits only this size.
    image_size: tuple[int, int, int] = (32, 256, 256)
    patch: tuple[int, int, int] = (4, 16, 16)  # Depth, height and width of a patch, in voxels.
    width: int = 768
    mlp_width: int = 3072  # Hidden width of the feed-forward networks.
    depth: int = 12
    heads: int = 12


class M3DViT(nn.Module):
    """A tower that maps volumes (B, 1, Z, H, W) of the configured size to features (B, z, h, w, D)."""

    def __init__(self, config: M3DViTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or M3DViTConfig()
        self.vit = ViT(
            in_channels=1,
            img_size=config.image_size,
            patch_size=config.patch,
            hidden_size=config.width,
            mlp_dim=config.mlp_width,
            num_layers=config.depth,
            num_heads=config.heads,
            proj_type="perceptron",
            classification=True,
        )
        # MONAI builds modules that this tower never runs. Their weights would get no gradient, and the published file
        # has no tensors for them.
        del self.vit.classification_head
        for block in self.vit.blocks:
            del block.norm_cross_attn
            block.attn.use_flash_attention = True

    @property
    def grid(self) -> tuple[int, int, int]:
        """The number of patches along depth, height and width."""
        depth, height, width = (s // p for s, p in zip(self.config.image_size, self.config.patch, strict=True))
        return depth, height, width

    def forward(self, volume_B1ZHW: Tensor) -> Tensor:
        """Returns features_BzhwD."""
        if tuple(volume_B1ZHW.shape[2:]) != self.config.image_size:
            raise ValueError(f"a volume of {tuple(volume_B1ZHW.shape[2:])}, the tower takes {self.config.image_size}")
        tokens_BND: Tensor = self.vit(volume_B1ZHW)[0]
        features_BzhwD: Tensor = tokens_BND[:, 1:].unflatten(1, self.grid)
        return features_BzhwD
