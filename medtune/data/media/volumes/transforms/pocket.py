"""Transforms volumes for pocket_ct: shows where an organ is brighter, and where darker, than most of itself.

An untrained tower has a few minutes to learn to find lesions of 10 HU beside borders of 200 HU. For that reason the
borders are removed beforehand: every voxel well inside an organ becomes its difference from the median of that organ,
and differences that exceed the noise are summed over the cells of the organ's own box. Every organ becomes grey,
whatever its brightness, and lesions stand out; a cell is the same region of the organ in every patient. The brightness
of whole organs and everything outside of them is lost.

Legend of array names: I, J, K voxels to the patient's left, to the back and to the head; N of them in a row.
"""

import warnings
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid, reoriented
from medtune.data.media.volumes.transforms import resample
from medtune.data.media.volumes.transforms.organ_crop import _SIDES, box_around
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume

_HALF, _FEW = 0.5, 0.05


@dataclass(frozen=True, slots=True)
class PocketTransform:
    """Transforms a volume to (1, L, P, 2 S), axes to the left, the back and the head; brighter first, then darker.

    The volume's target is shown, or `organs` if it has none. For a scan without their masks all soft tissue is shown,
    with a warning.
    """

    version: ClassVar[int] = 3
    kept_as: ClassVar[str] = "on the model's grid as float32"
    # The names of the masks for volumes without a target.
    organs: tuple[str, ...] = ("colon", "kidney_left", "kidney_right", "liver", "pancreas")
    spacing_mm: float = 4.0  # The spacing of the grid on which tissue is compared, the same along all axes.
    tissue_hu: tuple[int, int] = (-60, 320)  # The lowest and highest value of soft tissue.
    # The number of voxels along each axis that are averaged against noise; a border of half as many voxels is left out
    # of each organ.
    fine: int = 3
    threshold_hu: float = 8.0  # The lowest difference that counts after averaging.
    # The number of cells of the box along each axis. A cell's value is log(1 + root of its excess in HU cm^3).
    cells: int = 4

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the transformed volume, without the channel."""
        return self.cells, self.cells, _SIDES * self.cells

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, L, P, 2 S)."""
        return np.asarray(kept.values, dtype=np.float32)

    def most_bytes(self, grid: Grid) -> int:
        return 4 * prod(self.shape)

    def keep(self, volume: Volume) -> Kept:
        """Returns the transformed volume, which is tiny."""
        upright = reoriented(volume, "LPS")
        organs = upright.target or self.organs
        # Each organ of a pair has its own brightness, so that each mask is compared with itself.
        masks = [mask for organ, mask in upright.masks_IJK.items() if organ in organs and mask.any()]
        if not masks:
            warnings.warn(f"no mask of {' or '.join(organs)}: the model sees all soft tissue of the scan", stacklevel=2)
            masks = [np.ones(upright.hu_IJK.shape, np.bool_)]
        box = box_around(np.logical_or.reduce(masks), upright.spacing_mm, margin_mm=self.fine * self.spacing_mm)
        hu_IJK = self._on_grid(upright.hu_IJK[box], upright)
        inside = [self._on_grid(mask[box], upright) > _HALF for mask in masks]
        difference_IJK = self._difference(hu_IJK, inside)
        cell_IJK = self._cells(np.logical_or.reduce(inside))
        voxel_cm3 = self.spacing_mm**3 / 1000
        halves = []
        for sign in (1, -1):
            excess_IJK = np.maximum(sign * difference_IJK - np.float32(self.threshold_hu), 0)
            counted = cell_IJK >= 0
            sums = np.bincount(cell_IJK[counted], excess_IJK[counted], minlength=self.cells**3) * voxel_cm3
            # The logarithm of the root lets a small or faint lesion count beside a large one.
            halves.append(np.log1p(np.sqrt(sums)).reshape((self.cells,) * 3))
        return Kept(np.concatenate(halves, axis=2).astype(np.float32)[None])

    def _difference(self, hu_IJK: NDArray[np.float32], organs: list[NDArray[np.bool_]]) -> NDArray[np.float32]:
        from scipy.ndimage import binary_erosion, uniform_filter

        low, high = self.tissue_hu
        soft_IJK = (hu_IJK > low) & (hu_IJK < high)
        difference_IJK = np.zeros_like(hu_IJK)
        inside_IJK = np.zeros_like(hu_IJK)
        for organ_IJK in organs:
            # Voxels beside another kind of tissue contain some of it, so that the border is left out.
            own_IJK = binary_erosion(soft_IJK & organ_IJK, iterations=self.fine // 2)
            if own_IJK.any():
                difference_IJK[own_IJK] = hu_IJK[own_IJK] - np.median(hu_IJK[own_IJK])
                inside_IJK[own_IJK] = 1
        share_IJK = np.maximum(uniform_filter(inside_IJK, self.fine), np.float32(_FEW))
        smooth_IJK = uniform_filter(difference_IJK, self.fine) / share_IJK * inside_IJK
        return np.asarray(smooth_IJK, dtype=np.float32)

    def _cells(self, inside_IJK: NDArray[np.bool_]) -> NDArray[np.int64]:
        cell_IJK = np.zeros(inside_IJK.shape, np.int64)
        for axis in range(3):
            others = tuple(a for a in range(3) if a != axis)
            found = np.flatnonzero(inside_IJK.any(axis=others))
            if not found.size:
                return np.full(inside_IJK.shape, -1)
            first, length = int(found[0]), int(found[-1]) + 1 - int(found[0])
            cell_N = (np.arange(inside_IJK.shape[axis]) - first) * self.cells // length
            cell_IJK = cell_IJK * self.cells + np.expand_dims(np.clip(cell_N, 0, self.cells - 1), others)
        return np.where(inside_IJK, cell_IJK, -1)

    def _on_grid(self, values_IJK: NDArray[Any], volume: Volume) -> NDArray[np.float32]:
        size = tuple(
            max(1, round(count * own / self.spacing_mm))
            for count, own in zip(values_IJK.shape, volume.spacing_mm, strict=True)
        )
        values = values_IJK.astype(np.float32)
        if size == values.shape:
            return values
        resized: NDArray[np.float32] = resample.linear(values[None], size, dtype=np.float32)[0].astype(np.float32)
        return resized


POCKET = PocketTransform()
