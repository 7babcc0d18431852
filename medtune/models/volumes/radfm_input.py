"""Prepares the input of RadFM: volumes, and images as scans of four equal slices, which may share a batch.

Shape legend: C channels, H height, W width, D depth.

Source: chaoyi-wu/RadFM@9efba84c, src/Dataset/dataset and src/datasampler.py, as our specs describe them. The published
code also crops images at random, even at test time; that is left out here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
import torch
from torch import Tensor

from medtune.data.media.volumes.transforms.radfm import DEPTHS, IN_PLANE, nearest_depth
from medtune.data.types import Image, Media, MediaKind
from medtune.models.volumes.volume_input import VolumeInput


@dataclass(frozen=True, slots=True)
class RadFMInput(VolumeInput):
    """Prepares volumes with a transform, and images as in RadFM: 512 x 512 pixels, RGB in [0, 1], four equal slices."""

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        return ("image", "volume")

    def __call__(self, media: Media) -> Tensor:
        """Returns one scan, (3, H, W, D), float32."""
        if not isinstance(media, Image):
            return VolumeInput.__call__(self, media)
        resized = PIL.Image.fromarray(media.pixels_HWC).resize((IN_PLANE, IN_PLANE), PIL.Image.Resampling.BICUBIC)
        pixels_CHW = torch.from_numpy(np.asarray(resized, dtype=np.float32) / 255.0).permute(2, 0, 1)
        return pixels_CHW.unsqueeze(-1).repeat(1, 1, 1, DEPTHS[0])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns scans as one batch.

        Scans of different sizes are scaled to 512 x 512 pixels and to the allowed depth nearest to the deepest scan's.
        """
        if len({item.shape for item in items}) == 1:
            return torch.stack(list(items))
        depth = nearest_depth(max(item.shape[-1] for item in items))
        size = (IN_PLANE, IN_PLANE, depth)
        return torch.cat([torch.nn.functional.interpolate(item[None], size, mode="nearest") for item in items])
