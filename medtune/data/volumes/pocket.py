"""pocket_ct's preparation of volumes: where soft tissue is brighter, and where darker, than the soft tissue around it.

A tower that starts from nothing has a few minutes to find lesions of 10 HU beside borders of 200. So the borders are
taken out beforehand: every voxel well inside soft tissue becomes its difference from the mean of the soft tissue within
some 2 cm, every other voxel 0. Organs turn grey, whatever their own brightness, and lesions stand out. What is lost is
the brightness of whole organs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Volume
from medtune.data.volumes import resample
from medtune.data.volumes.geometry import turned

_SIDES = 2


@dataclass(frozen=True, slots=True)
class PocketTransform:
    """Volumes -> (1, L, P, 2 S): axes to the left, to the back and to the head; brighter tissue first, then darker.

    Attributes:
        spacing_mm: Of the grid on which tissue is compared, the same along all axes.
        size: Voxels of that grid; cut or padded with air around the centre.
        tissue_hu: Lowest and highest value of soft tissue.
        around_mm: Side of the cube of tissue that a voxel is compared with.
        fine: Voxels along each axis that are averaged against noise.
        threshold_hu: What a difference has to exceed after that.
        coarse: Voxels along each axis that make one of the output.
        scale_hu: A mean excess of so much becomes 1.
    """

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    spacing_mm: float = 4.0
    size: tuple[int, int, int] = (96, 96, 72)
    tissue_hu: tuple[int, int] = (-60, 260)
    around_mm: float = 44.0
    fine: int = 3
    threshold_hu: float = 8.0
    coarse: int = 12
    scale_hu: float = 0.25

    @property
    def shape(self) -> tuple[int, int, int]:
        """What comes out, without the channel."""
        i, j, k = (side // self.coarse for side in self.size)
        return i, j, _SIDES * k

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns (1, L, P, 2 S)."""
        difference_IJK = _averaged(self._difference(self._on_grid(turned(volume, "LPS"))), self.fine)
        halves = []
        for sign in (1, -1):
            excess_IJK = np.maximum(sign * difference_IJK - np.float32(self.threshold_hu), 0)
            # The root lets a small or faint lesion count beside a large one.
            halves.append(np.sqrt(_averaged(excess_IJK, self.coarse // self.fine) / np.float32(self.scale_hu)))
        return np.asarray(np.concatenate(halves, axis=2), dtype=np.float32)[None]

    def _difference(self, hu_IJK: NDArray[np.float32]) -> NDArray[np.float32]:
        from scipy.ndimage import uniform_filter

        low, high = self.tissue_hu
        soft_IJK = ((hu_IJK > low) & (hu_IJK < high)).astype(np.float32)
        # A voxel that touches another kind of tissue holds some of it.
        inside_IJK = (uniform_filter(soft_IJK, 3) > 0.98).astype(np.float32)
        side = max(1, round(self.around_mm / self.spacing_mm))
        share_IJK = np.maximum(uniform_filter(inside_IJK, side), np.float32(1e-3))
        mean_IJK = uniform_filter(hu_IJK * inside_IJK, side) / share_IJK
        return np.asarray((hu_IJK - mean_IJK) * inside_IJK, dtype=np.float32)

    def _on_grid(self, volume: Volume) -> NDArray[np.float32]:
        size = tuple(
            max(1, round(count * own / self.spacing_mm))
            for count, own in zip(volume.hu_IJK.shape, volume.spacing_mm, strict=True)
        )
        values = volume.hu_IJK.astype(np.float32)[None]
        if size != volume.hu_IJK.shape:
            values = resample.linear(values, size, dtype=np.float32).astype(np.float32)
        centred: NDArray[np.float32] = resample.centred(values, self.size, pad=-1000.0)[0]
        return centred


def _averaged(values_IJK: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Returns the means of cubes of voxels."""
    i, j, k = (length // side for length in values_IJK.shape)
    return np.asarray(values_IJK.reshape(i, side, j, side, k, side).mean(axis=(1, 3, 5)), dtype=np.float32)


POCKET = PocketTransform()
