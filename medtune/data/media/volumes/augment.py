"""Augments training volumes and their masks: mirrored, moved, or with other Hounsfield units.

A mirrored patient has the liver on the left, so that answers about left and right become wrong; a benchmark says for
each question which changes leave its answer true.

Source: the limits are ours. BAAI-DCAI/M3D, Bench/dataset/multi_dataset.py (VQADataset) turns and flips its training
volumes whatever is asked about them.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.masks import other_side
from medtune.data.media.volumes.geometry import AIR_HU
from medtune.data.media.volumes.transforms import resample
from medtune.data.types import Volume

_TISSUE_HU = (-160.0, 240.0)
_BONE_HU = 3000.0
_SHRINK, _CONTRAST, _SHIFT_HU = 0.1, 0.1, 10.0


def augment_volume(volume: Volume, changes: Collection[str], *, rng: np.random.Generator) -> Volume:
    """Returns a randomly changed copy of a volume; mirroring happens half of the time.

    The shape, spacing, orientation and type of the voxels stay the same.
    """
    # All numbers are drawn in any case, so that asking for one more change does not alter the others.
    is_mirrored = rng.random() < 0.5
    i, j, k = rng.random(3).tolist()
    scale = 1 - rng.uniform(0, _SHRINK)
    contrast = 1 + rng.uniform(-_CONTRAST, _CONTRAST)
    shift_hu = rng.uniform(-_SHIFT_HU, _SHIFT_HU)
    if "mirror" in changes and is_mirrored:
        volume = mirrored(volume)
    if "move" in changes:
        volume = moved(volume, scale=scale, place=(i, j, k))
    if "grey" in changes:
        volume = regreyed(volume, contrast=contrast, shift_hu=shift_hu)
    return volume


def mirrored(volume: Volume) -> Volume:
    """Returns the volume with the patient's left and right sides swapped: the left kidney becomes the right one.

    >>> seen = mirrored(Volume(np.array([[[1]], [[2]]], np.int16), (1.0, 1.0, 1.0), "RAS", target=("kidney_left",)))
    >>> seen.hu_IJK.ravel().tolist(), seen.target
    ([2, 1], ('kidney_right',))
    """
    axis = next(axis for axis, letter in enumerate(volume.orientation) if letter in "LR")

    def flip(values_IJK: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.flip(values_IJK, axis))

    return replace(
        volume,
        hu_IJK=flip(volume.hu_IJK),
        masks_IJK={other_side(organ): flip(mask_IJK) for organ, mask_IJK in volume.masks_IJK.items()},
        target=tuple(map(other_side, volume.target)),
    )


def moved(volume: Volume, *, scale: float, place: tuple[float, float, float]) -> Volume:
    """Returns the volume with the patient smaller and elsewhere in the scan, surrounded by air and never cut off.

    The spacing stays the same, so that models that resample to a spacing see a smaller patient too.

    Args:
        place: The place along i, j and k, in shares from 0 to 1 of the space that the smaller patient leaves free.
    """
    shape = volume.hu_IJK.shape
    sizes = tuple(max(1, round(length * scale)) for length in shape)
    if sizes == shape:
        return volume
    starts = [round(share * (length - size)) for share, length, size in zip(place, shape, sizes, strict=True)]
    box = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
    # In a scan whose values are cut off at a window, the lowest value stands for air.
    around_hu = max(float(volume.hu_IJK.min()), AIR_HU)
    smaller_IJK = resample.linear(volume.hu_IJK.astype(np.float32)[None], sizes, dtype=np.float32)[0]
    if volume.hu_IJK.dtype == np.int16:
        smaller_IJK = np.rint(smaller_IJK)
    hu_IJK = np.full_like(volume.hu_IJK, around_hu)
    hu_IJK[box] = smaller_IJK
    # The nearest voxels are found by voxel centres, as in the linear resampling.
    nearest = [((np.arange(size) + 0.5) * length / size).astype(int) for size, length in zip(sizes, shape, strict=True)]

    def follow(mask_IJK: NDArray[np.bool_]) -> NDArray[np.bool_]:
        out_IJK = np.zeros_like(mask_IJK)
        for axis, index in enumerate(nearest):
            mask_IJK = mask_IJK.take(index, axis=axis)
        out_IJK[box] = mask_IJK
        return out_IJK

    return replace(
        volume, hu_IJK=hu_IJK, masks_IJK={organ: follow(mask_IJK) for organ, mask_IJK in volume.masks_IJK.items()}
    )


def regreyed(volume: Volume, *, contrast: float, shift_hu: float) -> Volume:
    """Returns the volume with another contrast and brightness of soft tissue; values of air and below stay the same.

    Args:
        contrast: The factor on differences from 40 HU in soft tissue (-160 to 240 HU); its effect fades out in bone, up
            to 3000 HU.

    >>> scan = Volume(np.array([[[-1024, -1000, 40, 140]]], np.int16), (1.0, 1.0, 1.0), "LPS")
    >>> regreyed(scan, contrast=1.1, shift_hu=5).hu_IJK.ravel().tolist()
    [-1024, -1000, 45, 155]
    """
    middle = sum(_TISSUE_HU) / 2
    lowest, highest = np.iinfo(np.int16).min, np.iinfo(np.int16).max
    was = [lowest, AIR_HU, *_TISSUE_HU, _BONE_HU, highest]
    becomes = [lowest, AIR_HU, *(middle + contrast * (hu - middle) + shift_hu for hu in _TISSUE_HU), _BONE_HU, highest]
    if volume.hu_IJK.dtype == np.int16:
        # Looking each voxel up in a table is ten times as fast as computing it.
        values = np.arange(np.iinfo(np.uint16).max + 1, dtype=np.uint16).view(np.int16)
        table = np.rint(np.interp(values, was, becomes)).astype(np.int16)
        return replace(volume, hu_IJK=table[volume.hu_IJK.view(np.uint16)])
    return replace(volume, hu_IJK=np.interp(volume.hu_IJK, was, becomes).astype(np.float32))
