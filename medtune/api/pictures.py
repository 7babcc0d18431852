"""Decodes media into the pictures that a plain Python function is handed."""

import PIL.Image

from medtune.data.media.load import load_media
from medtune.data.media.videos.sampling import Sampling
from medtune.data.types import Image, MediaRef, Video

VIDEO_FRAMES = 8
"""The number of frames of a video, evenly spaced in time. The value is our own choice."""


def pictures_of(ref: MediaRef) -> tuple[PIL.Image.Image, ...]:
    """Returns an image with its boxes drawn, or `VIDEO_FRAMES` frames of a video, as RGB pictures.

    Raises:
        FileNotFoundError: The file is missing.
        ValueError: The file cannot be decoded, or it is a volume, which is no picture.
    """
    if ref.kind == "volume":
        raise ValueError(
            f"{ref.path.name} is a volume, and a Python function is handed pictures. Give an object with a method "
            "answer(group, requests) (docs/python.md), or a model of medtune that reads volumes (`medtune eval`)"
        )
    media = load_media(ref, Sampling(VIDEO_FRAMES))
    if isinstance(media, Video):
        return tuple(map(PIL.Image.fromarray, media.frames_THWC))
    assert isinstance(media, Image)
    return (PIL.Image.fromarray(media.pixels_HWC),)
