"""Describes what a media file shows by a digest of what is decoded and by the hashes of a few pictures of it.

Brings a volume into a form that does not depend on how it was stored: axial slices, and nine pictures of slabs.

Shape legend: H height, W width, C red, green and blue; i, j, k as in `Volume`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.images import decode_image
from medtune.data.media.stored_media import pixel_digest
from medtune.data.media.videos.read import read_whole_frames
from medtune.data.media.volumes.axial_pictures import HuRange
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.perceptual_hash import perceptual_hash
from medtune.data.types import MediaKind, Volume

PLACES = (0.25, 0.5, 0.75)
"""The shares of a volume's length, along each axis, at which pictures are taken; our own choice."""
_THICKNESS = 1 / 16
_ORIENTATION = "LPS"
# Converters cut what scanners write outside of their round field of view, or keep it.
_STORED = HuRange(-1024, 3071)
_SOFT_TISSUE = HuRange(-150, 250)
_FAT_HU = -80
"""Fat has -80 HU or less, air -1000; every CT of a patient holds one of them."""
_OPPOSITE = {"L": "R", "R": "L", "P": "A", "A": "P", "S": "I", "I": "S"}

NUM_FRAMES = 8
"""The number of frames that stand for a video, in the middles of as many equal parts; the number is our own choice."""
_FLAT = 0


def axial_slices(volume: Volume) -> Iterator[NDArray[np.int16]]:
    """Yields the slices from foot to head, front up and the patient's right on the left, in whole Hounsfield units.

    Values are rounded and cut to -1024 to 3071. The size of a voxel has no part in it: the same voxels are the same
    scan where one of two headers is wrong. One slice at a time is copied.
    """
    hu_LPS = _canonical(volume)
    for index in range(hu_LPS.shape[2]):
        slice_HW = hu_LPS[:, :, index].T
        whole = slice_HW if slice_HW.dtype == np.int16 else np.rint(slice_HW)
        yield np.clip(whole, *_STORED).astype(np.int16)


def volume_pictures(volume: Volume) -> list[NDArray[np.uint8]]:
    """Returns nine pictures: along each axis the means of three slabs at `PLACES`, each a sixteenth of the length.

    They show soft tissue, -150 to 250 HU, so that a volume which was cut to a window of its own looks the same.
    """
    hu_LPS = _canonical(volume)
    return [_picture(_slab(hu_LPS, axis, place)) for axis in range(3) for place in PLACES]


def _canonical(volume: Volume) -> NDArray[np.generic]:
    letters = [letter if letter in _ORIENTATION else _OPPOSITE[letter] for letter in volume.orientation]
    flips = tuple(axis for axis, letter in enumerate(volume.orientation) if letter not in _ORIENTATION)
    axes = [letters.index(letter) for letter in _ORIENTATION]
    hu_IJK: NDArray[Any] = volume.hu_IJK
    hu_LPS: NDArray[Any] = np.flip(hu_IJK, flips).transpose(axes)
    return hu_LPS


def _slab(hu_LPS: NDArray[np.generic], axis: int, place: float) -> NDArray[np.float32]:
    length = hu_LPS.shape[axis]
    low, high = (place - _THICKNESS / 2) * length, (place + _THICKNESS / 2) * length
    first, last = int(np.floor(low)), min(int(np.ceil(high)), length)
    total: NDArray[np.float32] = np.zeros((), np.float32)
    weights = 0.0
    for index in range(first, last):
        weight = min(index + 1, high) - max(index, low)
        # numpy's take would copy the whole volume for each slice of it.
        slice_hu = hu_LPS[(slice(None),) * axis + (index,)]
        shown = np.clip(slice_hu.astype(np.float32), *_SOFT_TISSUE)
        total, weights = total + np.float32(weight) * shown, weights + weight
    mean: NDArray[np.float32] = np.asarray(total / np.float32(weights), dtype=np.float32)
    return mean


def _picture(hu: NDArray[np.float32]) -> NDArray[np.uint8]:
    low, high = _SOFT_TISSUE
    grey_HW = np.rint((hu.T - low) / (high - low) * 255).astype(np.uint8)
    return np.repeat(grey_HW[..., None], 3, axis=-1)


class Content(NamedTuple):
    """What a video or a volume shows, whatever the format of its file."""

    digest: str  # The SHA-256 of what is decoded, hex: the same for the same voxels or frames.
    # The perceptual hashes of some pictures of it, 0 for a flat one; empty if most of them are flat.
    pictures: tuple[int, ...]
    # Whether a volume has values as those of air or fat, without which it is no CT in Hounsfield units.
    is_in_hu: bool = True


def decoded_content(kind: MediaKind, path: Path) -> Content | None:
    """Returns what the file of a video or of a volume shows; None for an image, whose name is made from its pixels."""
    if kind == "volume":
        volume = read_volume(path)
        is_in_hu = bool((volume.hu_IJK <= _FAT_HU).any())
        return Content(_digest(axial_slices(volume)), _hashes(volume_pictures(volume)), is_in_hu)
    if kind == "video":
        count, frames_THWC = read_whole_frames(path, NUM_FRAMES)
        return Content(_digest(frames_THWC, count), _hashes(frames_THWC))
    return None


def shown_digest(kind: MediaKind, path: Path) -> str:
    """Returns the digest by which a prepared folder that holds a media file says what it shows."""
    content = decoded_content(kind, path)
    return content.digest if content else pixel_digest(decode_image(path).pixels_HWC)


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
