"""Clips through an image tower: so many frames, each looked at by itself.

Shape legend: B clips, T frames, C channels, H height, W width, N visual tokens of a frame, D feature width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medtune.data.media.videos.sampling import Sampling
from medtune.data.types import Image, Media, MediaKind, MediaRef, Video, wanted
from medtune.models.towers.image_tower import GridTower, ImageTransform


@dataclass(frozen=True, slots=True)
class ClipTransform:
    """How a clip becomes a tower's input.

    Attributes:
        image: What is done to each frame.
        num_frames: Sampled evenly, first and last among them.
    """

    image: ImageTransform
    num_frames: int

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        """Videos."""
        return ("video",)

    @property
    def sampling(self) -> Sampling:
        """So many frames, however long the clip is."""
        return Sampling(self.num_frames)

    def shape(self, ref: MediaRef) -> None:
        """Returns None: every clip has as many tokens."""
        return

    def __call__(self, media: Media) -> Tensor:
        """Returns float32 pixels, (num_frames, 3, size_px, size_px).

        Raises:
            ValueError: No video, or the clip is shorter than the model wants.
        """
        frames_THWC = wanted(media, Video).frames_THWC
        if len(frames_THWC) < self.num_frames:
            raise ValueError(
                f"the clip has {len(frames_THWC)} frames where the model looks at {self.num_frames}; make it longer"
            )
        return torch.stack([self.image(Image(frame_HWC)) for frame_HWC in frames_THWC])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns several clips as one batch, (B, num_frames, 3, size_px, size_px)."""
        return torch.stack(list(items))


class ClipTower(nn.Module):
    """An image tower over the frames of clips."""

    def __init__(self, frame: GridTower) -> None:
        super().__init__()
        self.frame = frame

    def forward(self, pixels_BTCHW: Tensor) -> Tensor:
        """Returns features_BTND."""
        features_XND: Tensor = self.frame(pixels_BTCHW.flatten(0, 1))
        features_BTND: Tensor = features_XND.unflatten(0, pixels_BTCHW.shape[:2])
        return features_BTND
