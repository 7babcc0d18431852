"""Transforms volumes as the M3D models do.

Source: BAAI-DCAI/M3D@63e72005, Data/process/m3d_cap_data_prepare.py; recorded values in golden/m3d-preprocess.json. The
project trained on 8-bit slices that were windowed at their source and names no window; ours is the golden file's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.transforms import resample
from medtune.data.types import Volume


@dataclass(frozen=True, slots=True)
class M3DTransform:
    """Transforms a volume to (1, D, H, W) in [0, 1]: D is k, H is j, W is i; spacing and orientation are not used.

    Attributes:
        window_hu: The lowest and highest value of the 8-bit slices; None scales the scan's own range.
        size: The number of voxels D, H, W.
    """

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    window_hu: tuple[int, int] | None = (-160, 240)
    size: tuple[int, int, int] = (32, 256, 256)

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns the volume scaled, cut to the box of values above the minimum, and resized, (1, D, H, W)."""
        values_DHW = volume.hu_IJK.transpose(2, 1, 0)
        if self.window_hu is None:
            scaled_DHW = values_DHW.astype(np.float32)
        else:
            low, high = self.window_hu
            grey = np.floor((np.clip(values_DHW.astype(np.float64), low, high) - low) * 255 / (high - low))
            scaled_DHW = grey.astype(np.float32) / np.float32(255)
        scaled_DHW = resample.min_max(scaled_DHW)
        return resample.linear(_content(scaled_DHW)[None], self.size, dtype=np.float32).astype(np.float32)


SLICES8 = M3DTransform()
"""The published transform with windowed 8-bit slices; the paper's 256 x 256 x 32 is this size in another order."""

HU_MINMAX = M3DTransform(window_hu=None)
"""The transform that scales the scan's own range, which the M3D project recommends for other data."""


def _content(values_DHW: NDArray[np.float32]) -> NDArray[np.float32]:
    filled = values_DHW > 0
    if not filled.any():
        return values_DHW
    box = []
    for axis in range(3):
        along = np.flatnonzero(filled.any(axis=tuple(a for a in range(3) if a != axis)))
        box.append(slice(int(along[0]), int(along[-1]) + 1))
    return values_DHW[tuple(box)]
