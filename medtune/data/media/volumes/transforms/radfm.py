"""Transforms volumes as RadFM does.

Source: chaoyi-wu/RadFM@9efba84c; recorded values in golden/radfm-preprocess.json. The published reader passes the array
of an ordinary NIfTI file, (k, j, i), to a 2D resize and so mixes up the axes; only files of its own slice converter are
read as intended. Both ways are implemented; the intended one, `hwd`, is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.transforms import resample
from medtune.data.types import Volume

IN_PLANE = 512
DEPTHS = tuple(range(4, 65, 4))
Axes = Literal["hwd", "nifti_npy", "nifti_direct"]


@dataclass(frozen=True, slots=True)
class RadFMTransform:
    """Transforms a volume to (3, H, W, D) in [0, 1]; spacing and orientation are not used, and there is no window.

    Attributes:
        axes: With `hwd` H is j, W is i and D is k. The other two repeat what the published readers do to a NIfTI file.
        in_plane: The height and width; 256 for one scan at a time, 512 in a larger batch and for images.
        depth: The number of slices; None takes the multiple of 4 from 4 to 64 that is nearest to the scan's own number.
    """

    version: ClassVar[int] = 1
    organs: ClassVar[tuple[str, ...]] = ()
    axes: Axes = "hwd"
    in_plane: int = 256
    depth: int | None = None

    def __call__(self, volume: Volume) -> NDArray[np.float32]:
        """Returns the transformed volume, (3, H, W, D)."""
        values_HWD = _in_model_axes(volume.hu_IJK, self.axes)
        slices_DHW = values_HWD.transpose(2, 0, 1).astype(np.float32)
        resized_DHW = np.rint(resample.linear(slices_DHW, (IN_PLANE, IN_PLANE), dtype=np.float32)).astype(np.float32)
        scaled_HWD = resample.min_max(resized_DHW).transpose(1, 2, 0)
        if self.axes == "nifti_direct":
            scaled_HWD = _at_most(scaled_HWD, DEPTHS[-1])
        depth = self.depth or nearest_depth(scaled_HWD.shape[2])
        for axis, size in ((0, self.in_plane), (1, self.in_plane), (2, depth)):
            scaled_HWD = resample.nearest(scaled_HWD, axis, size)
        return np.repeat(scaled_HWD[None], 3, axis=0)


PAPER = RadFMTransform(depth=64)
"""The transform that resizes directly to 256 x 256 x 64. Source: the seed paper's Table 2."""

PUBLIC = RadFMTransform()
"""The transform that the model was trained with: 256 x 256 in plane, depth to a multiple of 4."""


def nearest_depth(depth: int) -> int:
    """Returns the multiple of 4 from 4 to 64 that is nearest to a volume's depth; the smaller of two.

    Example:
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


def _at_most(values_HWD: NDArray[np.float32], depth: int) -> NDArray[np.float32]:
    if values_HWD.shape[2] <= depth:
        return values_HWD
    from scipy.ndimage import zoom

    return np.asarray(zoom(values_HWD, (1, 1, depth / values_HWD.shape[2]), order=0), dtype=np.float32)
