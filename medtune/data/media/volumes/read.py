"""Reads a volume from a path, whichever of the known file formats lies there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from medtune.data.media.stored_media import check_bytes
from medtune.data.media.volumes.dicom_series import read_series
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES, nifti_grid, read_nifti, read_nifti_mask
from medtune.data.media.volumes.formats.other_formats import other_format
from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX, read_scaled_array
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, read_stored_grid, read_stored_volume
from medtune.data.media.volumes.geometry import Grid, grid_of
from medtune.data.media.volumes.transforms.organ_crop import box_around
from medtune.data.types import MediaRef, Volume

Box = tuple[slice, slice, slice]
_BOXES: dict[MediaRef, Box] = {}
_MOST_BOXES = 100_000


def read_volume(path: Path) -> Volume:
    """Returns the volume in a NIfTI file, a folder with one DICOM series, an array or a file of a prepared folder."""
    if path.is_dir():
        return read_series(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such volume. Check the path.")
    check_bytes(path)
    if path.name.endswith(STORED_SUFFIX):
        return read_stored_volume(path)
    if path.name.endswith(ARRAY_SUFFIX):
        return read_scaled_array(path)
    if not path.name.endswith(NIFTI_SUFFIXES):
        if (other := other_format(path)) is not None:
            raise ValueError(f"{path}: {other}")
        raise ValueError(f"{path}: wanted .nii, .nii.gz, a folder with a DICOM series, or .npy with a volumes.json.")
    return read_nifti(path)


def volume_grid(path: Path) -> Grid:
    """Returns the grid of a volume, from the file's header where it has one."""
    if path.is_file() and path.name.endswith(STORED_SUFFIX):
        return read_stored_grid(path)
    if path.is_file() and path.name.endswith(NIFTI_SUFFIXES):
        return nifti_grid(path)
    return grid_of(read_volume(path))


def load_volume(ref: MediaRef, organs: Collection[str] = ()) -> Volume:
    """Returns a volume with the masks of some organs; organs without a mask file are left out.

    If the reference has a target, only the masks of the target are read; if it has `crop_mm`, the volume is cropped.
    """
    volume = read_volume(ref.path)
    if ref.crop_mm is not None:
        return Volume(volume.hu_IJK[_box(ref, volume)].copy(), volume.spacing_mm, volume.orientation)
    asked = ref.target or organs
    masks = {organ: read_nifti_mask(path, volume) for organ, path in ref.masks if organ in asked}
    return replace(volume, masks_IJK=masks, target=ref.target)


def seen_grid(ref: MediaRef) -> Grid:
    """Returns the grid of what is seen of a volume: its own, or that of the crop."""
    grid = volume_grid(ref.path)
    if ref.crop_mm is None:
        return grid
    lengths = [len(range(*part.indices(length))) for part, length in zip(_box(ref, None), grid.shape, strict=True)]
    return grid._replace(shape=(lengths[0], lengths[1], lengths[2]))


def _box(ref: MediaRef, volume: Volume | None) -> Box:
    # Sequences are laid out before a volume is read, and more than once.
    if ref not in _BOXES:
        volume = read_volume(ref.path) if volume is None else volume
        marked_IJK = np.zeros(volume.hu_IJK.shape, np.bool_)
        for organ, path in ref.masks:
            if organ in ref.target:
                marked_IJK |= read_nifti_mask(path, volume)
        if len(_BOXES) >= _MOST_BOXES:
            _BOXES.clear()
        everything = slice(None)
        _BOXES[ref] = (
            box_around(marked_IJK, volume.spacing_mm, margin_mm=ref.crop_mm or 0.0)
            if marked_IJK.any()
            else (everything, everything, everything)
        )
    return _BOXES[ref]
