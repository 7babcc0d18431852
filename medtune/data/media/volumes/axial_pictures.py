"""Shows a CT volume as axial slices, for models that read images or videos but no volumes.

Slices are shown as radiologists see them, front up and the patient's right on the left, and follow one another from
foot to head. Only the chosen slices are reoriented and windowed, so that a scan of a thousand slices takes no more
memory than its file.

Shape legend: T slices, H height, W width, C red, green and blue; i, j, k as in `Volume`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid, reoriented
from medtune.data.media.volumes.read import seen_grid
from medtune.data.types import Frames, MediaRef, Size, Video, Volume, VolumesAs


class HuRange(NamedTuple):
    """The range of Hounsfield units that a colour channel shows, from black at `low_hu` to full at `high_hu`."""

    low_hu: float
    high_hu: float


@dataclass(frozen=True, slots=True)
class AxialPictures:
    """A rule that turns a CT volume into axial pictures."""

    channels: tuple[HuRange, HuRange, HuRange]  # The range that red, green and blue show.
    at_most: int  # The highest number of slices; a scan with no more slices gives all of them.
    # A function of (slices of the scan, slices wanted) that returns the chosen numbers, counted from the foot. It is
    # called only if the scan has more slices than wanted.
    chosen: Callable[[int, int], list[int]]
    per_s: float  # The number of pictures a second, for models that are told the time; a scan itself has no times.

    def __call__(self, volume: Volume) -> Video:
        axis = next(axis for axis, letter in enumerate(volume.orientation) if letter in "SI")
        numbers = self._numbers(volume.hu_IJK.shape[axis])
        from_foot = numbers if volume.orientation[axis] == "S" else [volume.hu_IJK.shape[axis] - 1 - n for n in numbers]
        # The slices are taken in their order from the foot, so that the axis now points to the head.
        letters = volume.orientation.replace("I", "S")
        few = Volume(volume.hu_IJK.take(from_foot, axis=axis), volume.spacing_mm, letters)
        slices_WHT = reoriented(few, "LPS").hu_IJK
        frames_THWC = np.empty((*slices_WHT.T.shape, len(self.channels)), dtype=np.uint8)
        for frame_HWC, hu_HW in zip(frames_THWC, slices_WHT.T, strict=True):
            for channel, window in enumerate(self.channels):
                frame_HWC[..., channel] = _windowed(hu_HW, window)
        return Video(frames_THWC, self._times_s(len(numbers)))

    def frames(self, ref: MediaRef) -> Frames:
        """Returns the size and times of the pictures of a volume, from the file's header where it has one."""
        grid = seen_grid(ref)
        width, height, count = (_length(grid, letters) for letters in ("LR", "PA", "SI"))
        return Frames(Size(width, height), self._times_s(len(self._numbers(count))))

    def _numbers(self, count: int) -> list[int]:
        return list(range(count)) if count <= self.at_most else self.chosen(count, self.at_most)

    def _times_s(self, count: int) -> tuple[float, ...]:
        return tuple(number / self.per_s for number in range(count))


def section_ends(count: int, wanted: int) -> list[int]:
    """Returns the upper ends of `wanted` equal sections of a scan's slices: the last slice, but never the first.

    >>> section_ends(101, 4), section_ends(10, 4)
    ([25, 50, 75, 100], [2, 4, 7, 9])

    Source: google-health/medgemma@ff57e8c2, notebooks/high_dimensional_ct_hugging_face.ipynb.
    """
    return [round(number / wanted * (count - 1)) for number in range(1, wanted + 1)]


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """Returns `wanted` numbers spread evenly over 0 to `count` - 1, first and last included; few occur several times.

    >>> evenly_spaced(101, 5), evenly_spaced(2, 4), evenly_spaced(10, 1)
    ([0, 25, 50, 75, 100], [0, 0, 1, 1], [4])
    """
    if wanted == 1:
        return [(count - 1) // 2]
    return [round(number * (count - 1) / (wanted - 1)) for number in range(wanted)]


_SOFT_TISSUE = HuRange(-150, 250)
SLICES = AxialPictures(
    channels=(HuRange(-1024, 1024), HuRange(-135, 215), HuRange(0, 80)), at_most=85, chosen=section_ends, per_s=1.0
)
"""The slices that MedGemma 1.5 reads: 85 slices with everything in red, soft tissue in green and brain in blue.

Source: as `section_ends`. One second from slice to slice is our choice, for models that show them as a video.
"""
VIDEO = AxialPictures(channels=(_SOFT_TISSUE,) * 3, at_most=150, chosen=evenly_spaced, per_s=8.0)
"""A grey video of 150 frames, 8 a second, with a window of 400 HU around 50 HU.

Source: Schuture/DeepTumorVQA@1df7460d, HF_README and scripts/extract_train_videos.py; its choice of frames is not
published, and even spacing is our choice.
"""
SLICE = AxialPictures(channels=(_SOFT_TISSUE,) * 3, at_most=1, chosen=evenly_spaced, per_s=1.0)
"""A single grey slice, with a window of 400 HU around 50 HU.

Source: Schuture/DeepTumorVQA@1df7460d, HF_README (images_2d/whole) and data/prompt.py; its choice of the slice is not
published, and the middle one is our choice.
"""
_WAYS: dict[VolumesAs, AxialPictures] = {"slices": SLICES, "video": VIDEO, "slice": SLICE}


def axial_pictures(way: VolumesAs, *, at_most: int | None) -> AxialPictures:
    """Returns the rule of a name that turns volumes into slices, with at most so many if a number is given.

    A single slice stays a single slice.
    """
    return _WAYS[way] if at_most is None or way == "slice" else replace(_WAYS[way], at_most=at_most)


def _windowed(hu_HW: NDArray[np.generic], window: HuRange) -> NDArray[np.uint8]:
    low, high = window
    scaled_HW = (np.clip(hu_HW.astype(np.float32), low, high) - low) / (high - low)
    return np.asarray(np.rint(scaled_HW * 255), dtype=np.uint8)


def _length(grid: Grid, letters: str) -> int:
    return next(length for length, letter in zip(grid.shape, grid.orientation, strict=True) if letter in letters)
