"""A tower for video clips that applies an image tower to each of a fixed number of frames.

Shape legend: B clips, T frames, C channels, H height, W width, N visual tokens of a frame, D feature width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medtune.data.media.videos.sampling import Sampling
from medtune.data.types import Image, Media, MediaKind, MediaRef, Video, require_kind
from medtune.models.towers.image_tower import GridTower, ImageTransform


@dataclass(frozen=True, slots=True)
class ClipTransform:
    """Turns a clip into the input of a tower.

    Attributes:
        image: The transform of each frame.
        num_frames: Number of frames, which are sampled evenly and include the first and the last.
    """

    image: ImageTransform
    num_frames: int

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        return ("video",)

    @property
    def sampling(self) -> Sampling:
        """The rule that chooses the frames: the same number for every clip, however long it is."""
        return Sampling(self.num_frames)

    def shape(self, ref: MediaRef) -> None:
        """Returns None, because every clip has the same number of tokens."""
        return

    def __call__(self, media: Media) -> Tensor:
        """Returns the normalised pixels, float32, (num_frames, 3, size_px, size_px)."""
        frames_THWC = require_kind(media, Video).frames_THWC
        if len(frames_THWC) < self.num_frames:
            raise ValueError(
                f"the clip has {len(frames_THWC)} frames where the model looks at {self.num_frames}; make it longer"
            )
        return torch.stack([self.image(Image(frame_HWC)) for frame_HWC in frames_THWC])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        """Returns several clips as one batch, (B, num_frames, 3, size_px, size_px)."""
        return torch.stack(list(items))


class ClipTower(nn.Module):
    """An image tower that is applied to each frame of a clip."""

    def __init__(self, frame: GridTower) -> None:
        super().__init__()
        self.frame = frame

    def forward(self, pixels_BTCHW: Tensor) -> Tensor:
        features_XND: Tensor = self.frame(pixels_BTCHW.flatten(0, 1))
        features_BTND: Tensor = features_XND.unflatten(0, pixels_BTCHW.shape[:2])
        return features_BTND
