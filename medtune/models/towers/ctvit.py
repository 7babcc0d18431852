"""CTViT, the tower of CT-CLIP and CT-CHAT: attention within slabs and over depth, then the codes of a codebook.

Three peculiarities of the published code are kept, because the weights were trained with them:
- keys and values are computed from the stream before its norm, queries from the stream after it;
- the depth-wise convolution in the temporal stack reads its input of shape (B * h * w, t, D) as (B, t, h, w, D) without
  moving the axes;
- the tower returns code vectors of unit length, not the encoder's own features.

Shape legend: B volumes, T depth, H, W in voxels; t, h, w the same in patches; R rows of a stack, L tokens of a row,
A heads, E head width, D feature width, K codes, N = h * w patches.

Source: ibrahimethemhamamci/CT-CLIP@a2a155c6 and its paper, read for facts, no code taken (CC-BY-NC-SA);
checked against tests/golden/ctclip-vision.json.
The bias of its attention is the continuous position bias of Swin Transformer V2 (Liu et al., arXiv 2111.09883) with
two hidden layers and leaky ReLU of slope 0.1.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn

from medtune.models.towers import Size, Tower, patch_grid

ATTENTION_SCALE = 8.0


class LogOffsetBias(nn.Module):
    """An MLP that computes the bias of two patches from sign(d) * log(1 + |d|) of their row and column offsets d."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.LeakyReLU(0.1), nn.Linear(width, width), nn.LeakyReLU(0.1), nn.Linear(width, heads)
        )

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """Returns bias_ANN for a grid of (h, w), with the patches numbered row by row."""
        weight = next(self.net.parameters())
        rows, columns = (torch.arange(side, device=weight.device, dtype=weight.dtype) for side in grid)
        places_N2 = torch.cartesian_prod(rows, columns)
        offsets_NN2 = places_N2[:, None] - places_N2[None, :]
        logs_NN2 = offsets_NN2.sign() * offsets_NN2.abs().log1p()
        bias_ANN: Tensor = self.net(logs_NN2).movedim(-1, 0)
        return bias_ANN


@dataclass(frozen=True, slots=True)
class CTViTConfig:
    """The sizes of a CTViT; the defaults are the release's. No weight depends on the volume's size."""

    patch: tuple[int, int, int] = (10, 20, 20)  # Depth, height and width of a patch, in voxels.
    width: int = 512
    spatial_depth: int = 4  # Number of layers with attention within a slab.
    temporal_depth: int = 4  # Number of layers with attention over depth.
    heads: int = 8
    head_width: int = 32
    mlp_width: int = 1365  # Hidden width of the gated feed-forward network; in the release two thirds of 4 * width.
    codes: int = 8192


class Codes(NamedTuple):
    """The codes that the codebook gives for features."""

    tokens: Tensor  # Code vectors, float, (B, t, h, w, D).
    ids: Tensor  # Numbers of the codes, int64, (B, t, h, w).


class CosineAttention(nn.Module):
    """Attention whose scores are the cosine between queries and keys."""

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
    """A norm, a GELU-gated hidden layer and a projection back to the width."""

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
    """A layer of a stack: a depth-wise convolution over neighbouring patches, attention and the gated MLP."""

    def __init__(self, config: CTViTConfig) -> None:
        super().__init__()
        self.near = nn.Conv3d(config.width, config.width, kernel_size=3, groups=config.width)
        self.attention = CosineAttention(config)
        self.mlp = GatedMLP(config.width, config.mlp_width)

    def forward(self, stream_RLD: Tensor, grid_Bthw: tuple[int, int, int, int], bias_ALL: Tensor | None) -> Tensor:
        """Returns the stream after this layer, (R, L, D)."""
        # In the temporal stack this reshape mixes up the axes, as it did when the weights were trained (see the top of
        # this file).
        map_BDthw = stream_RLD.reshape(*grid_Bthw, -1).movedim(-1, 1)
        # The padding of two slabs before and none after lets a slab see only itself and the slabs before it.
        near_BDthw = self.near(nn.functional.pad(map_BDthw, (1, 1, 1, 1, 2, 0)))
        stream_RLD = stream_RLD + near_BDthw.movedim(1, -1).reshape(stream_RLD.shape)
        stream_RLD = stream_RLD + self.attention(stream_RLD, bias_ALL)
        after_RLD: Tensor = stream_RLD + self.mlp(stream_RLD)
        return after_RLD


class Stack(nn.Module):
    """Several layers and a final norm."""

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
    """The tensors of the published file that encoding does not read: the pixel decoder and the embedding of one slab.

    They are buffers, which are counted, saved and loaded with the tower, but never trained.
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
    """A tower that maps volumes (B, 1, T, H, W) to code vectors (B, t, h, w, D).

    In the release, a volume of 240 x 480 x 480 voxels becomes 24 x 24 x 24 vectors of width 512.
    """

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
        """Returns the encoder's own features before the codebook, (B, t, h, w, D)."""
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
        """Returns for each feature the code whose direction is nearest to the feature's."""
        ids = (nn.functional.normalize(encoded_BthwD, dim=-1) @ self.codebook_1KD[0].T).argmax(dim=-1)
        return Codes(self.decode_ids(ids), ids)

    def decode_ids(self, ids_Bthw: Tensor) -> Tensor:
        """Returns the code vectors of code ids, (..., D)."""
        return self.codebook_1KD[0, ids_Bthw]

    def forward(self, seen: Tensor) -> Tensor:
        """Returns code vectors, (B, t, h, w, D).

        In training, the gradient passes the codebook unchanged (a straight-through estimator).

        Args:
            seen: Volumes, float (B, 1, T, H, W), or the outputs of the same frozen tower for them: code ids, int64
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
    """Returns a small CTViT, which can be trained from random weights, for volumes of shape (1, *size)."""
    patch, width = 2, 96
    grid = patch_grid("ctvit", size, patch=patch)
    config = CTViTConfig((patch,) * 3, width, 2, 2, heads=4, head_width=24, mlp_width=width * 8 // 3, codes=1024)
    return Tower(lambda: CTViT(config), width, grid)
