"""Transforms volumes as CT-CLIP and CT-CHAT do.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973 llava/serve/encode_script.py and CT-CLIP@a2a155c6 scripts/data.py, read for
facts, no code taken (CC-BY-NC-SA); recorded values in tests/golden/ctclip-preprocess.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.json_text import json_value
from medtune.data.media.volumes.geometry import Grid, grid_of
from medtune.data.media.volumes.transforms import resample
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume

_RANGE_HU = (-1000, 1000)
_GRID = "grid"


@dataclass(frozen=True, slots=True)
class CTChatTransform:
    """Transforms a volume to (1, T, H, W) in [-1, 1]: T is k, H is i, W is j, whatever the orientation.

    A cache keeps the part of the scan that is seen: as int16 in HU on the scan's own grid where the scan's voxels are
    larger than the model's, which takes less than half the bytes of the resampled values and is resampled at each
    reading; and else these values, without the border of air around them.
    """

    version: ClassVar[int] = 2
    kept_as: ClassVar[str] = "the part that is seen, resampled as float32, or as int16 where a scan's voxels are larger"
    organs: ClassVar[tuple[str, ...]] = ()
    # The spacing in plane, in plane, and along k. The scan's spacing along i is used for j as well.
    spacing_mm: tuple[float, float, float] = (0.75, 0.75, 1.5)
    # The number of voxels H, W, T; the volume is cut or padded with -1 around the centre.
    size: tuple[int, int, int] = (480, 480, 240)
    # Whether values are cut off at +-1000 HU before they are resampled (encoding) or after (CT-CLIP's training).
    clip_first: bool = True

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def keep(self, volume: Volume) -> Kept:
        """Returns the scan's voxels that are seen, (k, j, i) int16, or the resampled ones, (T, H, W) float32."""
        view = self._view(grid_of(volume))
        seen_KJI = volume.hu_IJK.transpose(2, 1, 0)[view.voxels]
        if seen_KJI.dtype == np.int16 and self._are_larger(volume.spacing_mm):
            return Kept(seen_KJI, {_GRID: json.dumps([volume.hu_IJK.shape, volume.spacing_mm])})
        return Kept(self._resampled(seen_KJI, view))

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the transformed volume, (1, T, H, W)."""
        values = kept.values
        if _GRID in kept.about:
            shape, spacing_mm = json_value(kept.about[_GRID])
            values = self._resampled(values, self._view(Grid(tuple(shape), tuple(spacing_mm), "")))
        out_1THW = np.full((1, self.size[2], *self.size[:2]), -1.0, dtype=np.float32)
        t, h, w = values.shape
        out_1THW[(0, *resample.padded((t, h, w), (self.size[2], *self.size[:2])))] = values
        return out_1THW

    def most_bytes(self, grid: Grid) -> int:
        view = self._view(grid)
        if not self._are_larger(grid.spacing_mm):
            return view.resampled_bytes
        k, j, i = (part.stop - part.start for part in view.voxels)
        return int(2 * k * j * i)

    def _are_larger(self, spacing_mm: tuple[float, float, float]) -> bool:
        in_plane, _, along = spacing_mm
        return in_plane * in_plane * along > prod(self.spacing_mm)

    def _view(self, grid: Grid) -> _SeenVoxels:
        (i, j, k), (in_plane, _, along) = grid.shape, grid.spacing_mm
        at = []
        voxels = []
        sizes = (self.size[2], self.size[1], self.size[0])
        spacings_mm = (along, in_plane, in_plane)
        for have, spacing, target, want in zip((k, j, i), spacings_mm, self.spacing_mm[::-1], sizes, strict=True):
            # The fraction is cut off, not rounded, so that 431.99999999999994 voxels become 431 as in training.
            resized = int(have * (spacing / target))
            if resized == 0:
                raise ValueError(f"a scan of {grid.shape} voxels of {grid.spacing_mm} mm is smaller than a voxel here")
            where = resample.half_voxels(have, resized)[resample.centre(resized, want)].clip(0, have - 1)
            first = int(where[0])
            voxels.append(slice(first, min(int(where[-1]) + 2, have)))
            at.append(where - first)
        return _SeenVoxels((voxels[0], voxels[1], voxels[2]), (at[0], at[1], at[2]))

    def _resampled(self, seen_KJI: NDArray[np.generic], view: _SeenVoxels) -> NDArray[np.float32]:
        t, w, h = map(len, view.at)
        values_THW = np.empty((t, h, w), np.float32)
        before = (lambda hu: np.clip(hu, *_RANGE_HU)) if self.clip_first else np.asarray
        resample.linear_at(seen_KJI, view.at, out=values_THW.transpose(0, 2, 1), before=before)
        np.clip(values_THW, *_RANGE_HU, out=values_THW)
        values_THW /= _RANGE_HU[1]
        return values_THW


class _SeenVoxels(NamedTuple):
    """What is seen of a scan."""

    voxels: tuple[slice, slice, slice]  # Those of its voxels that are needed, along k, j, i.
    at: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]  # Where they are read, along k, j, i.

    @property
    def resampled_bytes(self) -> int:
        t, w, h = map(len, self.at)
        return 4 * t * w * h


ENCODE = CTChatTransform()
"""The transform of CT-CHAT's encoding script: 480 x 480 x 240 voxels of 0.75 x 0.75 x 1.5 mm."""

PAPER = CTChatTransform(spacing_mm=(1.5, 1.5, 1.5), size=(300, 300, 600))
"""300 x 300 x 600 voxels of 1.5 mm. Source: the seed paper's Table 2; the public code has no such size."""
