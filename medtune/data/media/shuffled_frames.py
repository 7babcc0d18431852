"""Shows a video with its frames in another order, for the condition "shuffled_frames"."""

from dataclasses import replace

from medtune.data.seeding import stable_int
from medtune.data.types import MediaGroup


def shuffled_group(group: MediaGroup, *, seed: int) -> MediaGroup | None:
    """Returns the media group with its videos' frames in an order drawn from (seed, media id); None without videos."""
    if all(ref.kind != "video" for ref in group.media):
        return None
    drawn = stable_int(seed, "shuffled_frames", group.media_id)
    shown = (replace(ref, shuffled_by=drawn) if ref.kind == "video" else ref for ref in group.media)
    return replace(group, media=tuple(shown))
