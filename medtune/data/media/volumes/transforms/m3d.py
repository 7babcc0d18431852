"""Transforms volumes as the M3D models do.

Source: BAAI-DCAI/M3D@63e72005, Data/process/m3d_cap_data_prepare.py; recorded values in
tests/golden/m3d-preprocess.json. The project trained on 8-bit slices that were windowed at their source and names no
window; ours is the one in that file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid
from medtune.data.media.volumes.transforms import resample
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume

ByValue = Callable[[NDArray[np.generic]], NDArray[np.float32]]
"""A function of each value of an array by itself."""
_SLICES = 16
"""Slices that are looked at together."""


@dataclass(frozen=True, slots=True)
class M3DTransform:
    """Transforms a volume to (1, D, H, W) in [0, 1]: D is k, H is j, W is i; spacing and orientation are not used."""

    version: ClassVar[int] = 2
    kept_as: ClassVar[str] = "on the model's grid as float32"
    organs: ClassVar[tuple[str, ...]] = ()
    # The lowest and highest value of the 8-bit slices; None scales the scan's own range.
    window_hu: tuple[int, int] | None = (-160, 240)
    size: tuple[int, int, int] = (32, 256, 256)  # The number of voxels D, H, W.

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def keep(self, volume: Volume) -> Kept:
        """Returns the transformed volume, which is smaller than the scan."""
        values_DHW = volume.hu_IJK.transpose(2, 1, 0)
        lowest, highest = (self._grey(np.asarray([bound(values_DHW)]))[0] for bound in (np.min, np.max))

        def scaled(hu: NDArray[np.generic]) -> NDArray[np.float32]:
            return resample.min_max(self._grey(hu), lowest, highest)

        scale = by_value(scaled, values_DHW)
        box = _content(values_DHW, scale)
        seen_DHW = values_DHW[box]
        d, h, w = map(resample.half_voxels, seen_DHW.shape, self.size)
        out_1DHW = np.empty((1, *self.size), np.float32)
        resample.linear_at(seen_DHW, (d, h, w), out=out_1DHW[0], before=scale)
        return Kept(out_1DHW)

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, D, H, W)."""
        return np.asarray(kept.values, dtype=np.float32)

    def most_bytes(self, grid: Grid) -> int:
        return 4 * prod(self.size)

    def _grey(self, hu: NDArray[np.generic]) -> NDArray[np.float32]:
        if self.window_hu is None:
            return hu.astype(np.float32)
        low, high = self.window_hu
        grey = np.floor((np.clip(hu.astype(np.float64), low, high) - low) * 255 / (high - low))
        return grey.astype(np.float32) / np.float32(255)


SLICES8 = M3DTransform()
"""The published transform with windowed 8-bit slices; the paper's 256 x 256 x 32 is this size in another order."""

HU_MINMAX = M3DTransform(window_hu=None)
"""The transform that scales the scan's own range, which the M3D project recommends for other data."""


def _content(values_DHW: NDArray[np.generic], scale: ByValue) -> tuple[slice, slice, slice]:
    filled = [np.zeros(length, np.bool_) for length in values_DHW.shape]
    for start in range(0, values_DHW.shape[0], _SLICES):
        above_DHW = np.asarray(scale(values_DHW[start : start + _SLICES]) > 0)
        filled[0][start : start + _SLICES] = above_DHW.any(axis=(1, 2))
        plane_HW = np.asarray(above_DHW.any(axis=0))
        filled[1] |= plane_HW.any(axis=1)
        filled[2] |= plane_HW.any(axis=0)
    if not filled[0].any():
        return slice(None), slice(None), slice(None)
    d, h, w = (slice(int(inside[0]), int(inside[-1]) + 1) for inside in map(np.flatnonzero, filled))
    return d, h, w


def by_value(change: ByValue, values: NDArray[np.generic]) -> ByValue:
    """Returns the same function, read from a table of its results where the values are whole numbers of 16 bits."""
    if values.dtype != np.int16:
        return change
    lowest, highest = int(values.min()), int(values.max())
    table = change(np.arange(lowest, highest + 1))

    def looked_up(part: NDArray[np.generic]) -> NDArray[np.float32]:
        taken: NDArray[np.float32] = table.take(part.astype(np.intp) - lowest)
        return taken

    return looked_up
