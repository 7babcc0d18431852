"""Transforms volumes as Merlin does.

Source: merlin-vlm 0.0.7, merlin/data/monai_transforms.py; recorded values in
tests/golden/merlin-preprocess.json. The seed paper's Table 2 names the same size and spacing.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid, grid_of, turned, turned_shape, turned_spacing
from medtune.data.media.volumes.transforms import resample
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume


@dataclass(frozen=True, slots=True)
class MerlinTransform:
    """Transforms a volume to (1, R, A, S) in [0, 1], with axes to the right, to the front and to the head."""

    version: ClassVar[int] = 2
    kept_as: ClassVar[str] = "resampled as float32, without the border"
    organs: ClassVar[tuple[str, ...]] = ()
    spacing_mm: tuple[float, float, float] = (1.5, 1.5, 3.0)
    window_hu: tuple[int, int] = (-1000, 1000)  # The Hounsfield units that become 0 and 1; values outside are cut off.
    # The number of voxels; the volume is cut or padded with 0 around the centre.
    size: tuple[int, int, int] = (224, 224, 160)

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def keep(self, volume: Volume) -> Kept:
        """Returns the transformed volume without the border of zeros, (R, A, S)."""
        seen_SAR = turned(volume.hu_IJK, volume, "RAS").transpose(2, 1, 0)
        r, a, s = self._coordinates(grid_of(volume))
        values_RAS = np.empty((len(r), len(a), len(s)), np.float32)
        resample.linear_at(seen_SAR, (s, a, r), out=values_RAS.transpose(2, 1, 0))
        low, high = self.window_hu
        values_RAS -= low
        values_RAS /= np.float32(high - low)
        return Kept(np.clip(values_RAS, 0, 1, out=values_RAS))

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, R, A, S)."""
        out_1RAS = np.zeros((1, *self.size), dtype=np.float32)
        r, a, s = kept.values.shape
        out_1RAS[(0, *resample.padded((r, a, s), self.size))] = kept.values
        return out_1RAS

    def most_bytes(self, grid: Grid) -> int:
        """Returns the bytes of what is kept of a volume on a grid, or of a crop of it, at most."""
        return 4 * prod(map(len, self._coordinates(grid)))

    def _coordinates(self, grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        lengths, spacing_mm = turned_shape(grid, "RAS"), turned_spacing(grid, "RAS")
        r, a, s = (
            np.asarray(np.arange(resized) * (target / own), dtype=np.float64)[resample.centre(resized, want)]
            for length, own, target, want in zip(lengths, spacing_mm, self.spacing_mm, self.size, strict=True)
            for resized in (round((length - 1) * own / target + 1),)
        )
        return r, a, s


PUBLIC = MerlinTransform()
