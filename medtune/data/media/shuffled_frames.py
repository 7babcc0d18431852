"""Shows a video with its frames in another order, for the condition "shuffled_frames"."""

from __future__ import annotations

from dataclasses import replace

from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup


def shuffled_group(group: MediaGroup, *, seed: int) -> MediaGroup | None:
    """Returns the media group with its video's frames in an order drawn from (seed, media id); None for other media."""
    if group.media.kind != "video":
        return None
    drawn = stable_int(seed, "shuffled_frames", group.media_id)
    return replace(group, media=replace(group.media, shuffled_by=drawn))
