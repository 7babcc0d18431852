"""Loads a media item of any kind by its reference, or measures it without decoding."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medtune.data.media.images import Size, image_size, load_image
from medtune.data.media.videos.read import Frames, Sampling, read_video, video_frames
from medtune.data.media.volumes.read import load_volume
from medtune.data.seeding import stable_int
from medtune.data.types import Media, MediaGroup, MediaKind, MediaRef

Shape = Size | Frames
"""The size of an image, or the frame size and times of a video."""


def load_media(ref: MediaRef, sampling: Sampling | None = None) -> Media:
    """Returns the decoded image, video or volume of a reference, red boxes drawn; of a video the sampled frames."""
    if ref.kind == "volume":
        return load_volume(ref)
    return read_video(ref, sampling) if ref.kind == "video" else load_image(ref)


def media_shape(ref: MediaRef, sampling: Sampling | None = None) -> Shape | None:
    """Returns the size of an image, or the frame size and times of a video, without decoding; None for a volume."""
    if ref.kind == "volume":
        return None
    return video_frames(ref, sampling) if ref.kind == "video" else image_size(ref.path)


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


def shuffled_group(group: MediaGroup, *, seed: int) -> MediaGroup | None:
    """Returns the media group with its videos' frames in an order drawn from (seed, media id); None without videos."""
    if all(ref.kind != "video" for ref in group.media):
        return None
    drawn = stable_int(seed, "shuffled_frames", group.media_id)
    shown = (replace(ref, shuffled_by=drawn) if ref.kind == "video" else ref for ref in group.media)
    return replace(group, media=tuple(shown))
