"""Reads a volume from a path, whichever of the known file formats lies there."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from medtune.data.media.volumes.formats.dicom_series import read_series
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES, nifti_grid, read_nifti, read_nifti_mask
from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX, read_scaled_array
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, read_stored_grid, read_stored_volume
from medtune.data.media.volumes.geometry import Grid, grid_of
from medtune.data.types import MediaRef, Volume


def read_volume(path: Path) -> Volume:
    """Returns the volume in a NIfTI file, a folder with one DICOM series, an array or a file of a prepared folder."""
    if path.is_dir():
        return read_series(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such volume. Check the path.")
    if path.name.endswith(STORED_SUFFIX):
        return read_stored_volume(path)
    if path.name.endswith(ARRAY_SUFFIX):
        return read_scaled_array(path)
    if not path.name.endswith(NIFTI_SUFFIXES):
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

    If the reference has a target, only the masks of the target are read.
    """
    volume = read_volume(ref.path)
    asked = ref.target or organs
    masks = {organ: read_nifti_mask(path, volume) for organ, path in ref.masks if organ in asked}
    return replace(volume, masks_IJK=masks, target=ref.target)
