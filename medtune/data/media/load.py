"""Any media item by its reference: decoded, a video only as far as asked for, or measured without decoding."""

from __future__ import annotations

from medtune.data.media.images import Size, image_size, load_image
from medtune.data.media.videos.read import Frames, read_video, video_frames
from medtune.data.media.videos.sampling import Sampling
from medtune.data.media.volumes.read import load_volume
from medtune.data.types import Media, MediaRef

Shape = Size | Frames
"""What a sequence may need to know of a media item before it is decoded."""


def load_media(ref: MediaRef, sampling: Sampling | None = None) -> Media:
    """Returns what `ref` names, with its red rectangles drawn; of a video the sampled frames, or all.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file cannot be decoded, a box is empty or leaves the image, or a clip does not lie in its video.
    """
    if ref.kind == "volume":
        return load_volume(ref)
    return read_video(ref, sampling) if ref.kind == "video" else load_image(ref)


def media_shape(ref: MediaRef, sampling: Sampling | None = None) -> Shape | None:
    """Returns the shape of what `load_media` gives, without decoding it; None for a volume.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty or broken, or a clip does not lie in its video.
    """
    if ref.kind == "volume":
        return None
    return video_frames(ref, sampling) if ref.kind == "video" else image_size(ref.path)
