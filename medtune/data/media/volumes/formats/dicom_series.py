"""Reads a folder with one DICOM series as a volume; it never reads tags that do not describe pixels and their place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.dicom import LAYOUT_TAGS, is_dicom
from medtune.data.media.volumes.geometry import compact_hu, geometry_of
from medtune.data.types import Volume

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_PLACE_TAGS = ("PixelSpacing", "ImageOrientationPatient", "ImagePositionPatient")
_TAGS = (*LAYOUT_TAGS, "SeriesInstanceUID", *_PLACE_TAGS)
_NEEDED = (*_PLACE_TAGS, "RescaleSlope", "RescaleIntercept")
_MAX_GAP = 1.5
_SAME_MM = 0.01
# In DICOM x and y grow to the left and to the back; here they grow to the right and to the front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0])


class _Slice(NamedTuple):
    path: Path
    dataset: Dataset
    along_mm: float
    origin_mm: NDArray[np.float64]


def read_series(folder: Path) -> Volume:
    """Returns the volume of the DICOM series in a folder: i along a row, j down a column, k along the slices."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder. Check the path.")
    datasets = {path: _read(path) for path in sorted(folder.iterdir()) if path.is_file() and is_dicom(path)}
    if not datasets:
        raise ValueError(f"{folder}: no DICOM file in this folder.")
    series = {str(d.get("SeriesInstanceUID", "")) for d in datasets.values()}
    if len(series) > 1:
        raise ValueError(f"{folder}: SeriesInstanceUID: {len(series)} series in one folder. Give each its own folder.")
    first_path, first = next(iter(datasets.items()))
    for field in ("Rows", "Columns", "PixelSpacing", "ImageOrientationPatient"):
        for path, dataset in datasets.items():
            if not np.allclose(_numbers(dataset, field), _numbers(first, field), atol=1e-4):
                raise ValueError(f"{path}: {field}: not as in {first_path.name}. Give each series its own folder.")
    row, column = _numbers(first, "ImageOrientationPatient").reshape(2, 3)
    normal = np.cross(row, column)
    slices = sorted((_placed(path, dataset, normal) for path, dataset in datasets.items()), key=lambda s: s.along_mm)
    step = _step(folder, slices)
    row_mm, column_mm = _numbers(first, "PixelSpacing")
    affine = _TO_RAS @ np.stack([row * column_mm, column * row_mm, step], axis=1)
    place = geometry_of(affine, where=f"{folder}: ImageOrientationPatient and ImagePositionPatient")
    hu_IJK = np.stack([_hounsfield(s).T for s in slices], axis=2)
    return Volume(compact_hu(hu_IJK, where=f"{folder}: PixelData"), place.spacing_mm, place.orientation)


def _read(path: Path) -> Dataset:
    import pydicom
    from pydicom.errors import InvalidDicomError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(path, specific_tags=list(_TAGS))
        except (InvalidDicomError, OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: this DICOM file is truncated or damaged ({type(error).__name__}).") from None
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        raise ValueError(f"{path}: NumberOfFrames: several frames in one file. Export the series slice by slice.")
    if "PixelData" not in dataset:
        raise ValueError(f"{path}: PixelData: this DICOM file holds no picture, or is truncated.")
    for field in _NEEDED:
        if dataset.get(field) in (None, ""):
            raise ValueError(
                f"{path}: {field}: not stated, so that the volume's place or its Hounsfield units are unknown."
            )
    return dataset


def _numbers(dataset: Dataset, field: str) -> NDArray[np.float64]:
    return np.atleast_1d(np.asarray(dataset[field].value, dtype=np.float64))


def _placed(path: Path, dataset: Dataset, normal: NDArray[np.float64]) -> _Slice:
    origin = _numbers(dataset, "ImagePositionPatient")
    return _Slice(path, dataset, float(origin @ normal), origin)


def _step(folder: Path, slices: list[_Slice]) -> NDArray[np.float64]:
    if len(slices) < 2:
        raise ValueError(f"{folder}: one slice only; a volume needs two, or there is no spacing between slices.")
    places = np.array([s.along_mm for s in slices])
    gaps = np.diff(places)
    usual = float(np.median(gaps))
    for index, gap in enumerate(gaps):
        between = f"between {slices[index].path.name} and {slices[index + 1].path.name}"
        if gap < _SAME_MM:
            raise ValueError(f"{folder}: ImagePositionPatient: two slices at one place, {between}.")
        if gap > _MAX_GAP * usual:
            missing = round(gap / usual) - 1
            raise ValueError(
                f"{folder}: ImagePositionPatient: {missing} slices missing {between} (a gap of {gap:.2f} mm where "
                f"others are {usual:.2f} mm). Copy the series again as a whole."
            )
    step: NDArray[np.float64] = (slices[-1].origin_mm - slices[0].origin_mm) / (len(slices) - 1)
    return step


def _hounsfield(item: _Slice) -> NDArray[np.float32]:
    from pydicom.pixels.utils import pixel_array

    try:
        stored = pixel_array(item.dataset)
    # Any of pydicom's many errors may quote the header, so that only the kind of error is passed on.
    except Exception as error:
        raise ValueError(
            f"{item.path}: PixelData: does not decode ({type(error).__name__}): truncated, damaged, or compressed in a "
            "way that is not supported. Copy it again, or decompress it (gdcmconv --raw)."
        ) from None
    hu: NDArray[np.float32] = stored.astype(np.float32) * np.float32(item.dataset.RescaleSlope) + np.float32(
        item.dataset.RescaleIntercept
    )
    return hu
