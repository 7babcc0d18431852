"""Provides blank media: a black image, a black video and a volume of air, for the condition "blank_image"."""

from collections.abc import Mapping
from pathlib import Path

from medtune.data.types import MediaGroup, MediaKind, MediaRef

BLANK = MediaRef(Path(__file__).with_name("blank.png"))
"""A black square without boxes; black is also the background of ultrasound images."""
BLANKS: Mapping[MediaKind, MediaRef] = {
    "image": BLANK,
    "video": MediaRef(Path(__file__).with_name("blank.mkv"), kind="video"),
    "volume": MediaRef(Path(__file__).with_name("blank.nii.gz"), kind="volume"),
}
"""The blank of each kind of media; the video has 64 frames in 8 seconds, the scan of air is 384 x 384 x 288 mm."""


def blank_group(group: MediaGroup) -> MediaGroup | None:
    """Returns the group with a blank of the same kind in place of each of its items; its media id is "blank".

    A group without media has nothing that could be blank, and None is returned.
    """
    if not group.media:
        return None
    return MediaGroup("blank", tuple(BLANKS[ref.kind] for ref in group.media), group.questions)
