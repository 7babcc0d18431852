"""Transforms volumes as RadFM does.

Source: chaoyi-wu/RadFM@9efba84c; recorded values in tests/golden/radfm-preprocess.json. The published reader passes the
array of an ordinary NIfTI file, (k, j, i), to a 2D resize and so mixes up the axes; only files of its own slice
converter are read as intended. Both ways are implemented; the intended one, `hwd`, is the default.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.geometry import Grid, compact_hu
from medtune.data.media.volumes.transforms import resample
from medtune.data.media.volumes.transforms.transform import Kept
from medtune.data.types import Volume

IN_PLANE = 512
DEPTHS = tuple(range(4, 65, 4))
_SLICES = 16
"""Slices that are resized together."""
_LOWEST, _HIGHEST = "lowest", "highest"
Axes = Literal["hwd", "nifti_npy", "nifti_direct"]


@dataclass(frozen=True, slots=True)
class RadFMTransform:
    """Transforms a volume to (3, H, W, D) in [0, 1]; spacing and orientation are not used, and there is no window.

    A cache keeps one of the three equal channels as int16: a sixth of the bytes.
    """

    version: ClassVar[int] = 2
    kept_as: ClassVar[str] = "one of three equal channels, as int16"
    organs: ClassVar[tuple[str, ...]] = ()
    # With `hwd` H is j, W is i and D is k. The other two repeat what the published readers do to a NIfTI file.
    axes: Axes = "hwd"
    in_plane: int = 256  # The height and width; 256 for one scan at a time, 512 in a larger batch and for images.
    # The number of slices; None takes the multiple of 4 from 4 to 64 that is nearest to the scan's own number.
    depth: int | None = None

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        return self.finish(self.keep(volume))

    def keep(self, volume: Volume) -> Kept:
        """Returns one of the three equal channels before it is scaled, (H, W, D) in whole HU, and the scan's range."""
        values_HWD = _in_model_axes(volume.hu_IJK, self.axes)
        slices = np.arange(values_HWD.shape[2])
        if self.axes == "nifti_direct":
            slices = _at_most(slices, DEPTHS[-1])
        slices = slices[resample.nearest(len(slices), self.depth or nearest_depth(len(slices)))]
        pixels = resample.nearest(IN_PLANE, self.in_plane)
        seen_HWD = np.empty((len(pixels), len(pixels), len(slices)), np.float32)
        lowest, highest = float("inf"), float("-inf")
        for start in range(0, values_HWD.shape[2], _SLICES):
            slices_DHW = values_HWD[:, :, start : start + _SLICES].transpose(2, 0, 1).astype(np.float32)
            resized_DHW = np.rint(resample.linear(slices_DHW, (IN_PLANE, IN_PLANE), dtype=np.float32))
            lowest, highest = min(lowest, float(resized_DHW.min())), max(highest, float(resized_DHW.max()))
            here = np.flatnonzero((slices >= start) & (slices < start + _SLICES))
            seen_HWD[:, :, here] = resized_DHW[np.ix_(slices[here] - start, pixels, pixels)].transpose(1, 2, 0)
        about = {_LOWEST: repr(lowest), _HIGHEST: repr(highest)}
        return Kept(compact_hu(seen_HWD, where="the scan in whole HU"), about)

    def finish(self, kept: Kept) -> NDArray[np.float32]:
        """Returns the transformed volume, (3, H, W, D)."""
        lowest, highest = float(kept.about[_LOWEST]), float(kept.about[_HIGHEST])
        return np.repeat(resample.min_max(kept.values, lowest, highest)[None], 3, axis=0)

    def most_bytes(self, grid: Grid) -> int:
        depth = self.depth or nearest_depth(max(grid.shape if self.axes != "hwd" else grid.shape[2:]))
        return 2 * self.in_plane**2 * depth


PAPER = RadFMTransform(depth=64)
"""The transform that resizes directly to 256 x 256 x 64. Source: the seed paper's Table 2."""

PUBLIC = RadFMTransform()
"""The transform that the model was trained with: 256 x 256 in plane, depth to a multiple of 4."""


def nearest_depth(depth: int) -> int:
    """Returns the multiple of 4 from 4 to 64 that is nearest to a volume's depth; the smaller of two.

    >>> nearest_depth(10), nearest_depth(30), nearest_depth(1), nearest_depth(300)
    (8, 28, 4, 64)
    """
    return min(DEPTHS, key=lambda candidate: (abs(candidate - depth), candidate))


def _in_model_axes(values_IJK: NDArray[np.generic], axes: Axes) -> NDArray[np.generic]:
    if axes == "hwd":
        return values_IJK.transpose(1, 0, 2)
    read_KJI = values_IJK.transpose(2, 1, 0)
    if axes == "nifti_direct" and read_KJI.shape[0] > read_KJI.shape[2]:
        return read_KJI.transpose(2, 0, 1)
    return read_KJI


def _at_most(slices: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    if len(slices) <= number:
        return slices
    from scipy.ndimage import zoom

    return np.asarray(zoom(slices, number / len(slices), order=0), dtype=np.int64)
