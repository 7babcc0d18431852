"""A path becomes a volume, whatever it holds."""

from __future__ import annotations

from pathlib import Path

from medtune.data.types import Volume
from medtune.data.volumes.dicom_series import read_series
from medtune.data.volumes.nifti import SUFFIXES, read_nifti


def read_volume(path: Path) -> Volume:
    """Returns the volume of a NIfTI file or of a folder with one DICOM series.

    Raises:
        FileNotFoundError: There is nothing at the path.
        ValueError: It is neither, or is refused (see `read_nifti` and `read_series`).
    """
    if path.is_dir():
        return read_series(path)
    if not path.exists():
        raise FileNotFoundError(f"no volume at {path}")
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"{path}: wanted .nii, .nii.gz or a folder with a DICOM series.")
    return read_nifti(path)
