"""Turns images, clips and volumes into a fixed number of pictures for a tower over pictures.

Shape legend: F pictures of an item, C channels, H height, W width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import PIL.Image
import torch
from torch import Tensor

from medtune.data.media.volumes.axial_pictures import AxialPictures, evenly_spaced
from medtune.data.types import Image, Media, MediaKind, MediaRef, Sampling, Video, Volume, require_kind


@dataclass(frozen=True, slots=True)
class PictureInput:
    """Turns a media item into a fixed number of pictures, so that each item has the same number of visual tokens."""

    picture: Callable[[PIL.Image.Image], Tensor]  # Turns one picture into the pixels (3, H, W) that the tower reads.
    # Number of pictures. A clip or volume with more gives so many, spread evenly with the first and the last; one with
    # fewer repeats some of its own. An image is shown as a clip that stands still.
    num_pictures: int = 1
    takes_videos: bool = False
    volumes: AxialPictures | None = None  # Turns a volume into pictures; None refuses volumes.

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        more: tuple[tuple[MediaKind, bool], ...] = (("video", self.takes_videos), ("volume", self.volumes is not None))
        return ("image", *(kind for kind, taken in more if taken))

    @property
    def sampling(self) -> Sampling | None:
        return Sampling(self.num_pictures) if self.takes_videos else None

    def shape(self, ref: MediaRef) -> None:
        return

    def __call__(self, media: Media) -> Tensor:
        """Returns the pixels of the pictures, float32, (F, 3, H, W)."""
        if self.volumes is not None and isinstance(media, Volume):
            media = self.volumes(media)
            frames = media.frames_THWC
        elif self.takes_videos and isinstance(media, Video):
            frames = media.frames_THWC
        else:
            frames = require_kind(media, Image).pixels_HWC[None]
        shown = [self.picture(PIL.Image.fromarray(frame_HWC)) for frame_HWC in frames]
        return torch.stack([shown[number] for number in evenly_spaced(len(shown), self.num_pictures)])

    def stack(self, items: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(items))
