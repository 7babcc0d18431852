"""Describes a file in the media folder of a prepared folder."""

from dataclasses import dataclass

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Extent
from medtune.data.prepared.content.decoded import Content


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file in the media folder of a prepared folder.

    Attributes:
        digest: The SHA-256 of its content, hex; for an image that of its shape and pixels.
        file: Its name in the media folder.
        size: The width and height of an image or of a video's frames.
        look: The perceptual hash of an image, 64 bits; None for other media, and for a flat image.
        extent: The frame size, frame times and duration of a video.
        content: What a video or volume shows once it is decoded; None for other files.
    """

    digest: str
    file: str
    size: Size | None = None
    look: int | None = None
    extent: Extent | None = None
    content: Content | None = None
