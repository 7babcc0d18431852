"""Describes what a media file shows by a digest of what is decoded and by the hashes of a few pictures of it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.videos.read import read_whole_frames
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.content.volume_pictures import axial_slices, volume_pictures
from medtune.data.prepared.lookalikes.perceptual_hash import perceptual_hash
from medtune.data.types import MediaKind

NUM_FRAMES = 8
"""The number of frames that stand for a video, in the middles of as many equal parts; the number is our own choice."""
_FLAT = 0


class Content(NamedTuple):
    """What a video or a volume shows, whatever the format of its file.

    Attributes:
        digest: The SHA-256 of what is decoded, hex: the same for the same voxels or frames.
        pictures: The perceptual hashes of some pictures of it, 0 for a flat one; empty if most of them are flat.
    """

    digest: str
    pictures: tuple[int, ...]


def decoded_content(kind: MediaKind, path: Path) -> Content | None:
    """Returns what the file of a video or of a volume shows; None for an image, whose name is made from its pixels."""
    if kind == "volume":
        volume = read_volume(path)
        return Content(_digest(axial_slices(volume)), _hashes(volume_pictures(volume)))
    if kind == "video":
        count, frames_THWC = read_whole_frames(path, NUM_FRAMES)
        return Content(_digest(frames_THWC, count), _hashes(frames_THWC))
    return None


def _digest(pictures: Iterable[NDArray[np.generic]], count: int = 0) -> str:
    whole = hashlib.sha256(f"{count}:".encode())
    for picture in pictures:
        whole.update(f"{'x'.join(map(str, picture.shape))}:".encode())
        whole.update(np.ascontiguousarray(picture).data)
    return whole.hexdigest()


def _hashes(pictures: Iterable[NDArray[np.uint8]]) -> tuple[int, ...]:
    found = [perceptual_hash(picture) for picture in pictures]
    if found.count(None) * 2 > len(found):
        return ()
    return tuple(_FLAT if each is None else each for each in found)
