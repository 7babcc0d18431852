"""A video with its frames in another order: a model that answers as well from it has not followed the movement."""

from __future__ import annotations

from dataclasses import replace

from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup


def shuffled_group(group: MediaGroup, *, seed: int) -> MediaGroup | None:
    """Returns the group with its video's frames in an order drawn from (seed, media id); None for other media."""
    if group.media.kind != "video":
        return None
    drawn = stable_int(seed, "shuffled_frames", group.media_id)
    return replace(group, media=replace(group.media, shuffled_by=drawn))
