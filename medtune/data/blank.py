"""The image that shows nothing: a model that answers as well from it has not looked."""

from __future__ import annotations

from pathlib import Path

from medtune.data.types import MediaGroup, MediaRef

BLANK = MediaRef(Path(__file__).with_name("blank.png"))
"""A black square without boxes: black is what lies around every ultrasound fan."""


def blank_group(group: MediaGroup) -> MediaGroup:
    """Returns the group with the black image in place of its own; its media id is "blank"."""
    return MediaGroup("blank", BLANK, group.questions)
