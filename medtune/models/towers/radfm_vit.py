"""RadFM's tower: a 3D vision transformer with pre-norm blocks, narrow attention, no class token and no final norm.

Shape legend: B volumes, C channels, H height, W width, Z depth in voxels; h, w, z the same in patches; N = h * w * z
tokens, D feature width.

Source: chaoyi-wu/RadFM@9efba84c, read for facts; checked against tests/golden/radfm-vision.json.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from monai.networks.blocks.mlp import MLPBlock
from monai.networks.blocks.selfattention import SABlock
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class RadFMViTConfig:
    """The sizes of the tower; the defaults are the release's."""

    channels: int = 3
    patch: tuple[int, int, int] = (32, 32, 4)  # Height, width and depth of a patch, in voxels.
    # Width of the residual stream, a multiple of 3, because each of three position tables fills a third of it.
    width: int = 768
    depth: int = 12
    heads: int = 8
    head_width: int = 64
    mlp_width: int = 2048  # Hidden width of the feed-forward networks.
    # Number of entries of the position tables for height, width and depth.
    position_rows: tuple[int, int, int] = (16, 16, 128)
    dropout: float = 0.0  # Probability of dropout in the blocks, from 0 to 1.


class StridedPositions(nn.Module):
    """Learned position tables for height, width and depth; a smaller grid uses evenly spaced entries of them.

    On an axis with a table of R entries, n patches use the entries (1..n) * (R // n) - 1. For instance, 8 patches use
    the entries 1, 3, ... 15 of 16.
    """

    def __init__(self, rows: tuple[int, int, int], width: int) -> None:
        super().__init__()
        if width % 3:
            raise ValueError(f"width {width} does not split into three position tables of equal width")
        self.tables = nn.ModuleList(nn.Embedding(count, width // 3) for count in rows)

    def forward(self, grid: tuple[int, int, int]) -> Tensor:
        """Returns positions_ND, in an order in which the height changes slowest and the depth fastest."""
        parts = []
        for axis, (each, count) in enumerate(zip(self.tables, grid, strict=True)):
            # Under ZeRO-3 a weight has its shape and its values only while its own module computes.
            assert isinstance(each, nn.Embedding)
            rows = each.num_embeddings
            if count > rows:
                raise ValueError(f"{count} patches along axis {axis}, the position table has {rows}; use fewer voxels")
            index_N = torch.arange(1, count + 1, device=each.weight.device) * (rows // count) - 1
            shape = [1, 1, 1, each.embedding_dim]
            shape[axis] = count
            parts.append(each(index_N).view(shape).expand(*grid, -1))
        return torch.cat(parts, dim=-1).flatten(0, 2)


class Block(nn.Module):
    """Attention and a feed-forward network, each behind its norm and added to the stream."""

    def __init__(self, config: RadFMViTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attn = SABlock(config.width, config.heads, dim_head=config.head_width, dropout_rate=config.dropout)
        # This gives the same numbers without holding the matrix of all pairs of tokens in memory.
        self.attn.use_flash_attention = config.dropout == 0
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = MLPBlock(config.width, config.mlp_width, dropout_rate=config.dropout)

    def forward(self, stream_BND: Tensor) -> Tensor:
        """Returns the stream after this block, (B, N, D)."""
        stream_BND = stream_BND + self.attn(self.norm1(stream_BND))
        after_BND: Tensor = stream_BND + self.mlp(self.norm2(stream_BND))
        return after_BND


class RadFMViT(nn.Module):
    """A tower that maps volumes (B, C, H, W, Z) to features (B, h, w, z, D); each side is a multiple of the patch."""

    def __init__(self, config: RadFMViTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or RadFMViTConfig()
        height, width, depth = config.patch
        patch_width = config.channels * height * width * depth
        self.patch_embedding = nn.Sequential(
            nn.LayerNorm(patch_width), nn.Linear(patch_width, config.width), nn.LayerNorm(config.width)
        )
        self.positions = StridedPositions(config.position_rows, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))

    def forward(self, volume_BCHWZ: Tensor) -> Tensor:
        """Returns features_BhwzD."""
        sides = tuple(volume_BCHWZ.shape[2:])
        if any(side % patch for side, patch in zip(sides, self.config.patch, strict=True)):
            raise ValueError(f"a volume of {sides} does not split into patches of {self.config.patch}")
        height, width, depth = (side // patch for side, patch in zip(sides, self.config.patch, strict=True))
        # The channel is the fastest index inside a patch.
        patches_BNP = rearrange(
            volume_BCHWZ,
            "b c (h p1) (w p2) (z p3) -> b (h w z) (p1 p2 p3 c)",
            p1=self.config.patch[0],
            p2=self.config.patch[1],
            p3=self.config.patch[2],
        )
        stream_BND = self.patch_embedding(patches_BNP) + self.positions((height, width, depth))
        for block in self.blocks:
            stream_BND = block(stream_BND)
        features_BhwzD: Tensor = stream_BND.unflatten(1, (height, width, depth))
        return features_BhwzD
