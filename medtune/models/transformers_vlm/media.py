"""Prepares images, videos and the slices of volumes with a processor of transformers.

Shape legend: T frames, C channels, H height, W width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import Tensor

from medtune.data.media.load import Shape, media_shape
from medtune.data.media.volumes.axial_pictures import AxialPictures
from medtune.data.types import Image, Media, MediaKind, MediaRef, Sampling, Video, Volume, require_kind
from medtune.models.transformers_vlm.family import Pixels
from medtune.models.weights.folder_check import why_unread


class PicturesOrVideo:
    """What a transform of images tells of the videos and volumes that it takes, where it has what turns them."""

    __slots__ = ()
    video: Any
    frames: Sampling | None
    volumes: AxialPictures | None

    @property
    def kinds(self) -> tuple[MediaKind, ...]:
        more: tuple[tuple[MediaKind, object], ...] = (("video", self.video), ("volume", self.volumes))
        return ("image", *(kind for kind, taken in more if taken is not None))

    @property
    def sampling(self) -> Sampling | None:
        return self.frames

    def shape(self, ref: MediaRef) -> Shape | None:
        if self.volumes is not None and ref.kind == "volume":
            return self.volumes.frames(ref)
        return media_shape(ref, self.frames)

    def stack(self, items: Sequence[Pixels]) -> Sequence[Pixels]:
        """Returns the items in a tuple; they may differ in shape, so that `Model.encode` joins them."""
        return tuple(items)


@dataclass(frozen=True, slots=True)
class ProcessorTransform(PicturesOrVideo):
    """Prepares media with a processor of transformers, in the sizes and with the normalisation of its checkpoint.

    Attributes:
        names: Names of the processor's outputs for an image that the tower takes; the others are left out.
        settings: Arguments that the processor passes to its image processor; InternVL's needs them to cut tiles.
        video: Turns a video into the tower's arguments; None where the model takes no videos.
        frames: The rule that chooses the frames of a video; None where the model takes no videos.
        volumes: Turns a volume into pictures, which are shown like the frames of a video; None refuses volumes.
    """

    processor: Any
    names: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    video: Callable[[Any, Video], Pixels] | None = None
    frames: Sampling | None = None
    volumes: AxialPictures | None = None

    def __call__(self, media: Media) -> Pixels:
        """Returns the tower's arguments for one image, video or volume."""
        if self.volumes is not None and isinstance(media, Volume):
            media = self.volumes(media)
        if isinstance(media, Video) and self.video is not None:
            height, width = media.frames_THWC.shape[1:3]
            with _refusing(f"a video of {width} x {height} pixels"):
                return self.video(self.processor, media)
        pixels_HWC = require_kind(media, Image).pixels_HWC
        height, width = pixels_HWC.shape[:2]
        # The processor would have to guess the channel axis of an array, which fails for 3 x 3 pixels. It does not
        # have to guess for a PIL image.
        picture = PIL.Image.fromarray(pixels_HWC)
        with _refusing(f"an image of {width} x {height} pixels"):
            made = self.processor.image_processor(images=[picture], **{**self.settings, "return_tensors": "pt"})
        return {name: torch.as_tensor(made[name]) for name in self.names}


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    try:
        yield
    # A processor with odd settings raises any of these.
    except (ValueError, RuntimeError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise ValueError(f"{what} does not suit the model: {why_unread(error)}") from error


def as_video(processor: Any, video: Video, *, names: tuple[str, ...]) -> Pixels:
    """Returns the outputs of the processor for a video that have the given names."""
    made = _processed(processor, video)
    return {name: torch.as_tensor(made[name]) for name in names}


def as_pairs(processor: Any, video: Video, *, names: tuple[str, ...]) -> Pixels:
    """Returns `as_video` for a tower of pairs; a single frame is shown twice, because the processor takes no fewer."""
    short = processor.video_processor.temporal_patch_size - len(video.times_s)
    if short > 0:
        frames_THWC = np.concatenate([video.frames_THWC, np.repeat(video.frames_THWC[-1:], short, axis=0)])
        video = Video(frames_THWC, (*video.times_s, *video.times_s[-1:] * short))
    return as_video(processor, video, names=names)


def as_tiles(processor: Any, video: Video) -> Pixels:
    """Returns the frames of a video, scaled by the video processor, as if they were the tiles of one image."""
    return {"pixel_values": torch.as_tensor(_processed(processor, video)["pixel_values_videos"]).flatten(0, 1)}


def as_images(processor: Any, video: Video) -> Pixels:
    pictures = [PIL.Image.fromarray(frame_HWC) for frame_HWC in video.frames_THWC]
    made = processor.image_processor(images=pictures, return_tensors="pt")
    return {"pixel_values": torch.as_tensor(made["pixel_values"])}


def _processed(processor: Any, video: Video) -> Mapping[str, Any]:
    frames_TCHW: Tensor = torch.from_numpy(video.frames_THWC).permute(0, 3, 1, 2)
    made: Mapping[str, Any] = processor.video_processor(
        videos=[frames_TCHW], return_tensors="pt", do_sample_frames=False, input_data_format="channels_first"
    )
    return made
