"""Resamples, scales and crops the arrays of volumes, for the transforms of several models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def linear(values: NDArray[np.floating], size: tuple[int, ...], *, dtype: type[np.floating]) -> NDArray[np.floating]:
    """Returns a volume (C, ...) resized linearly to (C, *size), with edges repeated, computed in `dtype`."""
    from monai.transforms import Resize

    mode = {2: "bilinear", 3: "trilinear"}[len(size)]
    return np.asarray(Resize(size, mode=mode, align_corners=False, dtype=dtype)(values))


def nearest(values: NDArray[np.float32], axis: int, size: int) -> NDArray[np.float32]:
    """Returns a volume resized along one axis to the nearest voxels: entry n is the old entry floor(n * old / new).

    Source: torch.nn.functional.interpolate, mode "nearest", float32 scale.
    """
    length = values.shape[axis]
    index = np.floor(np.arange(size, dtype=np.float32) * np.float32(length / size)).astype(np.int64)
    taken: NDArray[np.float32] = np.take(values, np.minimum(index, length - 1), axis=axis)
    return taken


def min_max(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns a volume's values scaled so that the lowest is 0 and the highest 1; a volume of one value becomes 0."""
    shifted = values - values.min()
    scaled: NDArray[np.float32] = shifted / max(float(shifted.max()), 1e-8)
    return scaled


def centred(values_CIJK: NDArray[np.float32], size: tuple[int, int, int], *, pad: float) -> NDArray[np.float32]:
    """Returns a volume cut or padded evenly on both sides to (C, *size); an odd voxel is cut or added at the end."""
    out = np.full((values_CIJK.shape[0], *size), pad, dtype=np.float32)
    read, write = [slice(None)], [slice(None)]
    for have, want in zip(values_CIJK.shape[1:], size, strict=True):
        kept = min(have, want)
        read.append(slice((have - kept) // 2, (have - kept) // 2 + kept))
        write.append(slice((want - kept) // 2, (want - kept) // 2 + kept))
    out[tuple(write)] = values_CIJK[tuple(read)]
    return out
