"""Media that show nothing: a model that answers as well from them has not looked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medtune.data.types import MediaGroup, MediaKind, MediaRef

BLANK = MediaRef(Path(__file__).with_name("blank.png"))
"""A black square without boxes: black is what lies around every ultrasound fan."""
BLANKS: Mapping[MediaKind, MediaRef] = {
    "image": BLANK,
    "video": MediaRef(Path(__file__).with_name("blank.mkv"), kind="video"),
    "volume": MediaRef(Path(__file__).with_name("blank.nii.gz"), kind="volume"),
}
"""What shows nothing of each kind: a video of 64 frames in 8 seconds, a scan of air 384 x 384 x 288 mm large."""


def blank_group(group: MediaGroup) -> MediaGroup:
    """Returns the group with the blank of its kind in place of its own media; its media id is "blank"."""
    return MediaGroup("blank", BLANKS[group.media.kind], group.questions)
