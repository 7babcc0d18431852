"""Media become the data URLs of a request: an image is one, a video several frames.

Shapes: T frames, H height, W width, C channels.
"""

from __future__ import annotations

import base64
import io

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.images import Size
from medtune.data.media import Shape
from medtune.data.types import Image, Media, MediaKind, Video
from medtune.models.endpoint.settings import Endpoint

READ: tuple[MediaKind, ...] = ("image", "video")
"""What can be sent."""
NO_VOLUMES = "an endpoint is sent images and frames of videos, not volumes; choose another model.name"
JPEG_QUALITY = 90


def data_urls(media: Media, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns the pictures that are sent, scaled down to `image_max_side`: the image, or frames in their order.

    Raises:
        ValueError: The media item is a volume.
    """
    if isinstance(media, Image):
        return (_data_url(media.pixels_HWC, endpoint),)
    if isinstance(media, Video):
        return tuple(
            _data_url(media.frames_THWC[at], endpoint)
            for at in chosen_frames(len(media.times_s), endpoint.video_frames)
        )
    raise ValueError(NO_VOLUMES)


def sent_sizes(shape: Shape | None, endpoint: Endpoint) -> tuple[Size, ...]:
    """Returns the size of each picture that is sent, from the media item's shape alone.

    Raises:
        ValueError: The media item is a volume.
    """
    if shape is None:
        raise ValueError(NO_VOLUMES)
    if isinstance(shape, Size):
        return (sent_size(shape, endpoint),)
    return (sent_size(shape.size, endpoint),) * len(chosen_frames(len(shape.times_s), endpoint.video_frames))


def chosen_frames(number: int, at_most: int) -> list[int]:
    """Returns which of a video's frames are sent: all, or so many at equal distances, first and last among them.

    Example:
        >>> chosen_frames(9, 3), chosen_frames(2, 8), chosen_frames(5, 1)
        ([0, 4, 8], [0, 1], [2])
    """
    if number <= at_most:
        return list(range(number))
    if at_most == 1:
        return [number // 2]
    return [int(at) for at in np.linspace(0, number - 1, at_most).round()]


def sent_size(size: Size, endpoint: Endpoint) -> Size:
    """Returns the size in which a picture is sent.

    Example:
        >>> sent_size(Size(1000, 500), Endpoint("http://x/v1", "m", image_max_side=100))
        Size(width=100, height=50)
    """
    longest, limit = max(size), endpoint.image_max_side
    if limit is None or longest <= limit:
        return size
    return Size(*(max(1, round(side * limit / longest)) for side in size))


def _data_url(pixels_HWC: NDArray[np.uint8], endpoint: Endpoint) -> str:
    picture = PIL.Image.fromarray(pixels_HWC)
    size = sent_size(Size(*picture.size), endpoint)
    if size != picture.size:
        picture = picture.resize(size, PIL.Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format=endpoint.image_format, quality=JPEG_QUALITY)
    return f"data:image/{endpoint.image_format};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
