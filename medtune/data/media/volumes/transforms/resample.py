"""Resamples, scales and crops the arrays of volumes, for the transforms of several models."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SLAB_VOXELS = 4_000_000
"""Voxels that are in memory as float64 at once, about 32 MB."""


def linear(values: NDArray[np.floating], size: tuple[int, ...], *, dtype: type[np.floating]) -> NDArray[np.floating]:
    """Returns a volume (C, ...) resized linearly to (C, *size), with edges repeated, computed in `dtype`."""
    from monai.transforms import Resize

    mode = {2: "bilinear", 3: "trilinear"}[len(size)]
    return np.asarray(Resize(size, mode=mode, align_corners=False, dtype=dtype)(values))


def linear_at(
    values: NDArray[np.generic],
    at: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    *,
    out: NDArray[np.float32],
    before: Callable[[NDArray[np.generic]], NDArray[np.generic]] = np.asarray,
) -> None:
    """Reads a volume between its voxels, linearly along each axis, with edges repeated.

    It is computed in float64, a few planes of the first axis at a time, and read fastest where that axis is the slowest
    in memory. Neither the volume nor the result is ever in memory as float64.

    Args:
        at: Where to read along each axis, in voxels, rising.
        before: A function of each voxel that is applied before values are mixed.
    """
    planes, rows, columns = (_between(where, length) for where, length in zip(at, values.shape, strict=True))
    step = max(1, int(_SLAB_VOXELS // max(len(at[1]) * len(at[2]), values.shape[1] * values.shape[2])))
    for start in range(0, len(at[0]), step):
        lower, upper = planes.lower[start : start + step], planes.upper[start : start + step]
        read, place = np.unique(np.concatenate([lower, upper]), return_inverse=True)
        whole = slice(int(read[0]), int(read[-1]) + 1)
        slab = before(values[whole] if len(read) == whole.stop - whole.start else values[read])
        mixed = _mixed(_mixed(slab, rows, axis=1), columns, axis=2)
        share = planes.share[start : start + step, None, None]
        np.add(
            mixed[place[: len(lower)]] * (1 - share),
            mixed[place[len(lower) :]] * share,
            out=out[start : start + step],
            casting="same_kind",
        )


class _Between(NamedTuple):
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    share: NDArray[np.float64]


def _between(at: NDArray[np.float64], length: int) -> _Between:
    inside = np.clip(at, 0, length - 1)
    lower = np.floor(inside).astype(np.int64)
    return _Between(lower, np.minimum(lower + 1, length - 1), inside - lower)


def _mixed(values: NDArray[Any], between: _Between, *, axis: int) -> NDArray[np.float64]:
    share = np.expand_dims(between.share, tuple(n for n in range(3) if n != axis))
    mixed: NDArray[np.float64] = values.take(between.lower, axis=axis) * (1 - share)
    mixed += values.take(between.upper, axis=axis) * share
    return mixed


def half_voxels(length: int, size: int) -> NDArray[np.float64]:
    """Returns where the voxels of an axis of `size` lie on an axis of `length` that covers the same distance.

    Source: torch.nn.functional.interpolate, align_corners=False.

    >>> half_voxels(4, 2).tolist()
    [0.5, 2.5]
    """
    return np.asarray((np.arange(size) + 0.5) * (length / size) - 0.5, dtype=np.float64)


def nearest(length: int, size: int) -> NDArray[np.int64]:
    """Returns the nearest voxels when an axis of `length` is resized to `size`: voxel n is floor(n * length / size).

    Source: torch.nn.functional.interpolate, mode "nearest", float32 scale.
    """
    index = np.floor(np.arange(size, dtype=np.float32) * np.float32(length / size)).astype(np.int64)
    return np.asarray(np.minimum(index, length - 1), dtype=np.int64)


def min_max(values: NDArray[np.generic], lowest: float, highest: float) -> NDArray[np.float32]:
    """Returns values scaled so that the lowest becomes 0 and the highest 1; a volume of one value becomes 0."""
    low = np.float32(lowest)
    scaled: NDArray[np.float32] = values.astype(np.float32)
    scaled -= low
    scaled /= max(float(np.float32(highest) - low), 1e-8)
    return scaled


def centre(have: int, want: int) -> slice:
    """Returns the part of an axis that is left when it is cut evenly on both sides; an odd voxel is cut at the end."""
    kept = min(have, want)
    return slice((have - kept) // 2, (have - kept) // 2 + kept)


def padded(shape: tuple[int, int, int], size: tuple[int, int, int]) -> tuple[slice, slice, slice]:
    """Returns where a volume of `shape`, not larger than `size`, lies in its middle; an odd voxel is added at the end.

    >>> padded((3, 4, 5), (6, 4, 5))[0]
    slice(1, 4, None)
    """
    i, j, k = (centre(want, have) for have, want in zip(shape, size, strict=True))
    return i, j, k
