"""Writes media as data URLs for a request: one for an image, and one for each frame of a video or slice of a CT.

Shapes: T frames, H height, W width, C channels.
"""

import base64
import io

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.images import Size
from medtune.data.media.load import Shape, media_shape
from medtune.data.media.videos.sampling import Sampling
from medtune.data.media.volumes.slices import AxialPictures, axial_pictures
from medtune.data.types import Image, Media, MediaKind, MediaRef, Video, Volume
from medtune.models.endpoint.settings import Endpoint

SLICES_INSTEAD = "set model.endpoint.volumes_as to send slices"
NO_VOLUMES = (
    f"an endpoint is sent images and frames of videos, not volumes; choose another model.name, or {SLICES_INSTEAD}"
)
JPEG_QUALITY = 90


def read_kinds(endpoint: Endpoint) -> tuple[MediaKind, ...]:
    """Returns the kinds of media that can be sent to the server."""
    return ("image", "video") if endpoint.volumes_as is None else ("image", "video", "volume")


def sampling(endpoint: Endpoint) -> Sampling:
    """Returns the rule that chooses the frames of a video that are sent."""
    return Sampling(endpoint.video_frames, endpoint.video_frames_per_s)


def sent_shape(ref: MediaRef, endpoint: Endpoint) -> Shape | None:
    """Returns the size of the pictures that are sent of a media item, and for several pictures their times.

    Only the header of the file is read. None stands for a volume that cannot be sent.
    """
    slices = _slices(endpoint)
    return slices.frames(ref.path) if slices and ref.kind == "volume" else media_shape(ref, sampling(endpoint))


def _slices(endpoint: Endpoint) -> AxialPictures | None:
    if endpoint.volumes_as is None:
        return None
    return axial_pictures(endpoint.volumes_as, at_most=endpoint.video_frames)


def data_urls(media: Media, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns the pictures that are sent as data URLs: the image, the frames of the video or slices of the volume.

    Larger pictures are scaled down to `image_max_side`.

    Args:
        media: The media item; a video holds only the frames that `sampling` chose.
        endpoint: The settings, which give the size and format of the pictures.
    """
    slices = _slices(endpoint)
    if slices and isinstance(media, Volume):
        media = slices(media)
    if isinstance(media, Image):
        return (_data_url(media.pixels_HWC, endpoint),)
    if isinstance(media, Video):
        return tuple(_data_url(frame_HWC, endpoint) for frame_HWC in media.frames_THWC)
    raise ValueError(NO_VOLUMES)


def sent_sizes(shape: Shape | None, endpoint: Endpoint) -> tuple[Size, ...]:
    """Returns the size of each picture that is sent.

    Args:
        shape: The result of `sent_shape`.
        endpoint: The settings, which limit the size.
    """
    if shape is None:
        raise ValueError(NO_VOLUMES)
    if isinstance(shape, Size):
        return (sent_size(shape, endpoint),)
    return (sent_size(shape.size, endpoint),) * len(shape.times_s)


def sent_size(size: Size, endpoint: Endpoint) -> Size:
    """Returns the size in which a picture is sent: its own, or scaled down to `image_max_side`.

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
