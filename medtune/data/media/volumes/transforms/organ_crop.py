"""Crops volumes around target organs, which the nn_ models see in place of the whole scan.

Source: the seed paper's section 4.5 names the crop and no margin; box, margin in mm, clamping and the whole scan for an
empty mask are those of TotalSegmentator 2.18 (20 mm where it crops to a chosen organ).
"""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.masks import MARGIN_MM, TARGETS
from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.transforms.transform import Kept, VolumeTransform
from medtune.data.types import Volume

_SIDES = 2


def crop_around(volume: Volume, mask_IJK: NDArray[np.bool_], *, margin_mm: float = MARGIN_MM, name: str = "") -> Volume:
    """Returns the volume cropped to the smallest box around a mask and a margin, cut off where the scan ends.

    Spacing and orientation stay the same. An empty mask gives the whole volume and a warning that contains `name`.
    """
    if mask_IJK.shape != volume.hu_IJK.shape:
        raise ValueError(f"a mask of {mask_IJK.shape} for a volume of {volume.hu_IJK.shape}")
    if margin_mm < 0:
        raise ValueError(f"margin_mm is {margin_mm}; it cannot be negative")
    if not mask_IJK.any():
        warnings.warn(f"{name or 'the organ'}: the mask is empty; the model sees the whole scan", stacklevel=2)
        return volume
    box = box_around(mask_IJK, volume.spacing_mm, margin_mm=margin_mm)
    return Volume(volume.hu_IJK[box].copy(), volume.spacing_mm, volume.orientation)


def box_around(
    mask_IJK: NDArray[np.bool_], spacing_mm: tuple[float, float, float], *, margin_mm: float
) -> tuple[slice, slice, slice]:
    """Returns the smallest box around the marked voxels of a mask and a margin, cut off where the scan ends."""
    box = []
    for axis, spacing in enumerate(spacing_mm):
        others = tuple(a for a in range(3) if a != axis)
        inside = np.flatnonzero(mask_IJK.any(axis=others))
        margin = int(np.ceil(margin_mm / spacing))
        box.append(slice(max(0, int(inside[0]) - margin), int(inside[-1]) + 1 + margin))
    return box[0], box[1], box[2]


@dataclass(frozen=True, slots=True)
class CroppedTransform:
    """Crops a volume around its target, or around some organs in one box, and then applies another transform."""

    version: ClassVar[int] = 2
    then: VolumeTransform
    # The names of the masks for volumes without a target; masks that a scan lacks are ignored.
    organs: tuple[str, ...] = TARGETS
    margin_mm: float = MARGIN_MM

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def keep(self, volume: Volume) -> Kept:
        marked_IJK = np.zeros(volume.hu_IJK.shape, np.bool_)
        organs = volume.target or self.organs
        for organ in organs:
            if organ in volume.masks_IJK:
                marked_IJK |= volume.masks_IJK[organ]
        cropped = crop_around(volume, marked_IJK, margin_mm=self.margin_mm, name=", ".join(organs))
        return self.then.keep(cropped)

    @property
    def kept_as(self) -> str:
        return f"crops, each {self.then.kept_as}"

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        return self.then.finish(kept)

    def most_bytes(self, grid: Grid) -> int:
        """Returns the bytes of what is kept of a volume of int16 on a grid, at most."""
        return self.then.most_bytes(grid)
