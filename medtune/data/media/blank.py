"""Provides blank media: a black image, a black video and a volume of air, for the condition "blank_image"."""

from __future__ import annotations

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


def blank_group(group: MediaGroup) -> MediaGroup:
    """Returns the group with blank media of the same kind in place of its own; its media id is "blank"."""
    return MediaGroup("blank", BLANKS[group.media.kind], group.questions)
