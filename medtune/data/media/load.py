"""Loads a media item of any kind by its reference, or measures it without decoding."""

from medtune.data.media.images import Size, image_size, load_image
from medtune.data.media.videos.read import Frames, read_video, video_frames
from medtune.data.media.videos.sampling import Sampling
from medtune.data.media.volumes.read import load_volume
from medtune.data.types import Media, MediaRef

Shape = Size | Frames
"""The size of an image, or the frame size and times of a video."""


def load_media(ref: MediaRef, sampling: Sampling | None = None) -> Media:
    """Returns the decoded image, video or volume of a reference, red boxes drawn; of a video the sampled frames."""
    if ref.kind == "volume":
        return load_volume(ref)
    return read_video(ref, sampling) if ref.kind == "video" else load_image(ref)


def media_shape(ref: MediaRef, sampling: Sampling | None = None) -> Shape | None:
    """Returns the size of an image, or the frame size and times of a video, without decoding; None for a volume."""
    if ref.kind == "volume":
        return None
    return video_frames(ref, sampling) if ref.kind == "video" else image_size(ref.path)
