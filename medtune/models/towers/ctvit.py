"""CT-CLIP's CTViT: attention over each slab, then over depth, then the nearest code of a codebook.

Three habits of the published weights are kept, since the weights were trained with them:
- keys and values come from the stream before its norm, queries from after it;
- the depth-wise convolution in the temporal stack reads its (B * h * w, t, D) input as (B, t, h, w, D), axes unmoved;
- what leaves the tower are code vectors of unit length, not the encoder's own features.

Shape legend: B volumes, T depth, H, W in voxels; t, h, w the same in patches; R rows of a stack, L tokens of a row,
A heads, E head width, D feature width, K codes.

Source: ibrahimethemhamamci/CT-CLIP@a2a155c6 as described in its paper and our specs, no code taken (CC-BY-NC-SA);
checked against golden/ctclip-vision.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn

from medtune.models.towers import Size, Tower, patch_grid
from medtune.models.towers.log_offset_bias import LogOffsetBias

ATTENTION_SCALE = 8.0


@dataclass(frozen=True, slots=True)
class CTViTConfig:
    """Sizes; the defaults are the release's. No weight depends on the volume's size.

    Attributes:
        patch: Depth, height, width in voxels.
        mlp_width: Of the gated feed-forward network, two thirds of 4 * width.
    """

    patch: tuple[int, int, int] = (10, 20, 20)
    width: int = 512
    spatial_depth: int = 4
    temporal_depth: int = 4
    heads: int = 8
    head_width: int = 32
    mlp_width: int = 1365
    codes: int = 8192


class Codes(NamedTuple):
    """The codebook's answer.

    Attributes:
        tokens: Code vectors, float, (B, t, h, w, D).
        ids: int64, (B, t, h, w).
    """

    tokens: Tensor
    ids: Tensor


class CosineAttention(nn.Module):
    """Attention by the cosine between queries and keys."""

    def __init__(self, config: CTViTConfig) -> None:
        super().__init__()
        inner = config.heads * config.head_width
        self.heads = config.heads
        self.norm = nn.LayerNorm(config.width, bias=False)
        self.q_scale = nn.Parameter(torch.ones(config.head_width))
        self.k_scale = nn.Parameter(torch.ones(config.head_width))
        self.to_q = nn.Linear(config.width, inner, bias=False)
        self.to_kv = nn.Linear(config.width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, config.width, bias=False)

    def forward(self, stream_RLD: Tensor, bias_ALL: Tensor | None) -> Tensor:
        """Returns what is added to the stream, (R, L, D)."""
        q, k, v = (
            rearrange(part, "r l (a e) -> r a l e", a=self.heads)
            for part in (self.to_q(self.norm(stream_RLD)), *self.to_kv(stream_RLD).chunk(2, dim=-1))
        )
        q, k = nn.functional.normalize(q, dim=-1) * self.q_scale, nn.functional.normalize(k, dim=-1) * self.k_scale
        mixed_RALE = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias_ALL, scale=ATTENTION_SCALE)
        added_RLD: Tensor = self.to_out(rearrange(mixed_RALE, "r a l e -> r l (a e)"))
        return added_RLD


class GatedMLP(nn.Module):
    """Norm, a GELU-gated hidden layer, and back."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.to_hidden = nn.Linear(width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, width, bias=False)

    def forward(self, stream_RLD: Tensor) -> Tensor:
        """Returns what is added to the stream, (R, L, D)."""
        value, gate = self.to_hidden(self.norm(stream_RLD)).chunk(2, dim=-1)
        added_RLD: Tensor = self.to_out(nn.functional.gelu(gate) * value)
        return added_RLD


class Layer(nn.Module):
    """A depth-wise convolution that tells neighbours apart, attention, and the gated MLP."""

    def __init__(self, config: CTViTConfig) -> None:
        super().__init__()
        self.near = nn.Conv3d(config.width, config.width, kernel_size=3, groups=config.width)
        self.attention = CosineAttention(config)
        self.mlp = GatedMLP(config.width, config.mlp_width)

    def forward(self, stream_RLD: Tensor, grid_Bthw: tuple[int, int, int, int], bias_ALL: Tensor | None) -> Tensor:
        """Returns the stream after this layer, (R, L, D)."""
        # A plain reshape: in the temporal stack the axes are scrambled, as they were in training (see above).
        map_BDthw = stream_RLD.reshape(*grid_Bthw, -1).movedim(-1, 1)
        # Two slabs before and none after: a slab sees itself and what lies before it.
        near_BDthw = self.near(nn.functional.pad(map_BDthw, (1, 1, 1, 1, 2, 0)))
        stream_RLD = stream_RLD + near_BDthw.movedim(1, -1).reshape(stream_RLD.shape)
        stream_RLD = stream_RLD + self.attention(stream_RLD, bias_ALL)
        after_RLD: Tensor = stream_RLD + self.mlp(stream_RLD)
        return after_RLD


class Stack(nn.Module):
    """Layers and a final norm."""

    def __init__(self, config: CTViTConfig, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(depth))
        self.norm = nn.LayerNorm(config.width, bias=False)

    def forward(self, stream_RLD: Tensor, grid_Bthw: tuple[int, int, int, int], bias_ALL: Tensor | None) -> Tensor:
        """Returns the normed stream, (R, L, D)."""
        for layer in self.layers:
            stream_RLD = layer(stream_RLD, grid_Bthw, bias_ALL)
        normed_RLD: Tensor = self.norm(stream_RLD)
        return normed_RLD


class Unread(nn.Module):
    """Tensors of the published file that encoding never reads: the pixel decoder and the embedding of a single slab.

    They are buffers: counted, saved and loaded with the tower, never trained.
    """

    def __init__(self, config: CTViTConfig) -> None:
        super().__init__()
        depth, height, width = config.patch
        slab = height * width
        shapes = {
            "first_norm_weight": (slab,),
            "first_norm_bias": (slab,),
            "first_linear_weight": (config.width, slab),
            "first_linear_bias": (config.width,),
            "first_out_weight": (config.width,),
            "first_out_bias": (config.width,),
            "pixels_weight": (slab * depth, config.width),
            "pixels_bias": (slab * depth,),
            "first_pixels_weight": (slab, config.width),
            "first_pixels_bias": (slab,),
        }
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))


class CTViT(nn.Module):
    """Volumes (B, 1, T, H, W) -> code vectors (B, t, h, w, D); 240 x 480 x 480 gives 24 x 24 x 24 of width 512."""

    codebook_1KD: Tensor

    def __init__(self, config: CTViTConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or CTViTConfig()
        depth, height, width = config.patch
        patch_width = depth * height * width
        self.patch_embedding = nn.Sequential(
            nn.LayerNorm(patch_width), nn.Linear(patch_width, config.width), nn.LayerNorm(config.width)
        )
        self.position_bias = LogOffsetBias(config.width, config.heads)
        self.spatial = Stack(config, config.spatial_depth)
        self.temporal = Stack(config, config.temporal_depth)
        self.register_buffer(
            "codebook_1KD", nn.functional.normalize(torch.randn(1, config.codes, config.width), dim=-1)
        )
        self.unread = Unread(config)

    def encode(self, volume_B1THW: Tensor) -> Tensor:
        """Returns the encoder's own features before the codebook, (B, t, h, w, D).

        Raises:
            ValueError: A side is no multiple of the patch.
        """
        depth, height, width = self.config.patch
        sides = tuple(volume_B1THW.shape[2:])
        if any(side % patch for side, patch in zip(sides, self.config.patch, strict=True)):
            raise ValueError(f"a volume of {sides} does not split into patches of {self.config.patch}")
        patches_BthwP = rearrange(
            volume_B1THW, "b c (t p1) (h p2) (w p3) -> b t h w (c p1 p2 p3)", p1=depth, p2=height, p3=width
        )
        stream_BthwD = self.patch_embedding(patches_BthwP)
        batch, t, h, w = stream_BthwD.shape[:4]
        grid = (batch, t, h, w)
        slabs = rearrange(stream_BthwD, "b t h w d -> (b t) (h w) d")
        slabs = self.spatial(slabs, grid, self.position_bias((h, w)))
        columns = rearrange(slabs, "(b t) (h w) d -> (b h w) t d", b=batch, h=h)
        columns = self.temporal(columns, grid, None)
        encoded_BthwD: Tensor = rearrange(columns, "(b h w) t d -> b t h w d", b=batch, h=h)
        return encoded_BthwD

    def quantise(self, encoded_BthwD: Tensor) -> Codes:
        """Returns the code that points most nearly in each feature's direction."""
        ids = (nn.functional.normalize(encoded_BthwD, dim=-1) @ self.codebook_1KD[0].T).argmax(dim=-1)
        return Codes(self.decode_ids(ids), ids)

    def decode_ids(self, ids_Bthw: Tensor) -> Tensor:
        """Returns the code vectors of (cached) ids, (..., D)."""
        return self.codebook_1KD[0, ids_Bthw]

    def forward(self, seen: Tensor) -> Tensor:
        """Returns code vectors, (B, t, h, w, D).

        In training the gradient passes the codebook as though it were not there (straight through).

        Args:
            seen: Volumes, float (B, 1, T, H, W); or what a frozen tower made of them before: code ids, int64
                (B, t, h, w), or code vectors, float (B, t, h, w, D).
        """
        if not seen.is_floating_point():
            return self.decode_ids(seen)
        if seen.shape[1] != 1 and seen.shape[-1] == self.config.width:
            return seen
        encoded = self.encode(seen)
        tokens = self.quantise(encoded).tokens
        return encoded + (tokens - encoded).detach() if encoded.requires_grad else tokens


def tower(size: Size) -> Tower:
    """Returns a small CTViT, which can be trained from random weights, for volumes of shape (1, *size).

    Raises:
        ValueError: The size does not split into its patches.
    """
    patch, width = 2, 96
    grid = patch_grid("ctvit", size, patch=patch)
    config = CTViTConfig((patch,) * 3, width, 2, 2, heads=4, head_width=24, mlp_width=width * 8 // 3, codes=1024)
    return Tower(lambda: CTViT(config), width, grid)
