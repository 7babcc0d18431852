"""Reads a folder with one DICOM series as a volume; it never reads tags that do not describe pixels and their place."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.compressed_dicom import stored_values
from medtune.data.media.dicom import LAYOUT_TAGS, is_dicom
from medtune.data.media.volumes.formats.other_formats import (
    CD_EXPORT,
    DIRECTORY,
    ENHANCED,
    holds_no_pixels,
    is_directory,
)
from medtune.data.media.volumes.geometry import compact_hu, geometry_of
from medtune.data.types import Volume

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_SLICE = (".dcm", ".dicom")
_PLACE_TAGS = ("PixelSpacing", "ImageOrientationPatient", "ImagePositionPatient")
_TAGS = (*LAYOUT_TAGS, "Modality", "SeriesInstanceUID", *_PLACE_TAGS)
_NEEDED = {
    "PixelSpacing": 2, "ImageOrientationPatient": 6, "ImagePositionPatient": 3, "RescaleSlope": 1,
    "RescaleIntercept": 1, "Rows": 1, "Columns": 1,
}  # fmt: skip
"""The tags without which a slice has no place or no Hounsfield units, and how many numbers each has."""
_ALIKE = ("Rows", "Columns", "PixelSpacing", "ImageOrientationPatient")
_MAY_BE_CT = ("CT", "OT", "")
_NO_CT = ("MR ", "Enhanced MR", "Positron", "Nuclear", "Ultrasound", "Enhanced PET", "RT ", "Segmentation")
"""How the names of DICOM's classes begin whose values are no Hounsfield units."""
_UNEVEN = 0.1
"""The share of the usual gap by which a gap may differ from it (our own choice): more would bend what is measured."""
_SAME_MM = 0.01
# In DICOM x and y grow to the left and to the back; here they grow to the right and to the front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0])


class _Slice(NamedTuple):
    path: Path
    dataset: Dataset
    series: str  # The number of the series, "" where the file has none.
    numbers: Mapping[str, NDArray[np.float64]]  # The values of `_NEEDED`.

    @property
    def origin_mm(self) -> NDArray[np.float64]:
        return self.numbers["ImagePositionPatient"]


def read_series(folder: Path) -> Volume:
    """Returns the volume of the DICOM series in a folder: i along a row, j down a column, k along the slices."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder. Check the path.")
    there = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    files = [path for path in there if is_dicom(path)]
    if odd := next((path for path in there if path.name.lower().endswith(_SLICE) and path not in files), None):
        raise ValueError(f"{odd}: this slice of the series is empty, damaged, or no DICOM file. Copy it again.")
    # A CD has the directory beside the files that it lists, or above their folders.
    slices_of = [path for path in files if path.name.upper() != DIRECTORY or not is_directory(path)]
    if files and not slices_of:
        raise ValueError(f"{folder}: {CD_EXPORT}")
    # Dose reports, key objects and saved windows lie beside the slices that they are about.
    slices = [_read_slice(path) for path in slices_of if not holds_no_pixels(path)]
    if not slices:
        raise ValueError(f"{folder}: no DICOM file in this folder.")
    series = {each.series for each in slices}
    if len(series) > 1:
        raise ValueError(f"{folder}: SeriesInstanceUID: {len(series)} series in one folder. Give each its own folder.")
    first = slices[0]
    for field in _ALIKE:
        for each in slices:
            if not np.allclose(each.numbers[field], first.numbers[field], atol=1e-4):
                raise ValueError(f"{each.path}: {field}: not as in {first.path.name}. Give each series its own folder.")
    row, column = first.numbers["ImageOrientationPatient"].reshape(2, 3)
    normal = np.cross(row, column)
    slices.sort(key=lambda each: float(each.origin_mm @ normal))
    step = _step(folder, slices, normal)
    row_mm, column_mm = first.numbers["PixelSpacing"]
    affine = _TO_RAS @ np.stack([row * column_mm, column * row_mm, step], axis=1)
    place = geometry_of(affine, where=f"{folder}: ImageOrientationPatient and ImagePositionPatient")
    hu_IJK = np.stack([_hounsfield(each).T for each in slices], axis=2)
    return Volume(compact_hu(hu_IJK, where=f"{folder}: PixelData"), place.spacing_mm, place.orientation)


def _read_slice(path: Path) -> _Slice:
    import pydicom
    from pydicom.uid import UID

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(path, specific_tags=list(_TAGS))
            num_frames = int(dataset.get("NumberOfFrames") or 1)
            modality, series = (str(dataset.get(name) or "") for name in ("Modality", "SeriesInstanceUID"))
            name = UID(str(dataset.file_meta.get("MediaStorageSOPClassUID", ""))).name
            holds_pixels = "PixelData" in dataset
        # Any of pydicom's many errors may quote the header, so that only the kind of error is passed on.
        except Exception as error:
            raise ValueError(f"{path}: this DICOM file is truncated or damaged ({type(error).__name__}).") from None
    if num_frames > 1:
        raise ValueError(f"{path}: NumberOfFrames: {ENHANCED}")
    if modality not in _MAY_BE_CT or name.startswith(_NO_CT):
        said = modality if modality not in _MAY_BE_CT and re.fullmatch("[A-Z]{2,10}", modality) else "of another kind"
        raise ValueError(
            f"{path}: Modality (0008,0060): {said}, wanted CT: models of volumes read Hounsfield units, which this "
            "series does not hold. Export its slices as PNG, and ask about images."
        )
    if not holds_pixels:
        raise ValueError(f"{path}: PixelData: this DICOM file holds no picture, or is truncated.")
    return _Slice(path, dataset, series, {field: _numbers(path, dataset, field) for field in _NEEDED})


def _numbers(path: Path, dataset: Dataset, field: str) -> NDArray[np.float64]:
    try:
        value = dataset.get(field)
        found = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except Exception:
        value, found = "odd", np.empty(0)
    if value in (None, ""):
        raise ValueError(
            f"{path}: {field}: not stated, so that the volume's place or its Hounsfield units are unknown."
        )
    if found.shape != (_NEEDED[field],) or not np.isfinite(found).all():
        raise ValueError(f"{path}: {field}: wanted {_NEEDED[field]} finite numbers. Correct the tag.")
    return found


def _step(folder: Path, slices: list[_Slice], normal: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(slices) < 2:
        raise ValueError(f"{folder}: one slice only; a volume needs two, or there is no spacing between slices.")
    places = np.array([float(each.origin_mm @ normal) for each in slices])
    gaps = np.diff(places)
    usual = float(np.median(gaps))
    for index, gap in enumerate(gaps):
        if gap < _SAME_MM:
            raise ValueError(f"{folder}: ImagePositionPatient: two slices at one place, {_between(slices, index)}.")
    steps = np.rint(gaps / usual)
    is_wide = steps > 1
    if (steps < 1).any() or (np.abs(gaps / usual - steps) > _UNEVEN).any() or (is_wide[1:] & is_wide[:-1]).any():
        low, high = int(gaps.argmin()), int(gaps.argmax())
        raise ValueError(
            f"{folder}: ImagePositionPatient: the slices are not evenly spaced: {gaps[low]:.2f} mm "
            f"{_between(slices, low)}, {gaps[high]:.2f} mm {_between(slices, high)}. Give each evenly spaced part a "
            "folder of its own, or convert the series: dcm2niix -z y -o OUT FOLDER also writes an evenly spaced copy "
            "(_Eq), which can be named."
        )
    if is_wide.any():
        first = int(is_wide.argmax())
        raise ValueError(
            f"{folder}: ImagePositionPatient: {int(steps[first]) - 1} slices missing {_between(slices, first)} (a gap "
            f"of {gaps[first]:.2f} mm where others are {usual:.2f} mm). Copy the series again as a whole."
        )
    step: NDArray[np.float64] = (slices[-1].origin_mm - slices[0].origin_mm) / (len(slices) - 1)
    return step


def _between(slices: Sequence[_Slice], index: int) -> str:
    return f"between {slices[index].path.name} and {slices[index + 1].path.name}"


def _hounsfield(item: _Slice) -> NDArray[np.float32]:
    try:
        stored = stored_values(item.dataset)
    # Any of pydicom's many errors may quote the header, so that only the kind of error is passed on.
    except Exception as error:
        raise ValueError(
            f"{item.path}: PixelData: does not decode ({type(error).__name__}): truncated, damaged, or compressed in a "
            "way that is not supported. Copy it again, or decompress it (gdcmconv --raw)."
        ) from None
    if stored.shape != (int(item.numbers["Rows"][0]), int(item.numbers["Columns"][0])):
        raise ValueError(f"{item.path}: PixelData: wanted one grey value a pixel, got another form.")
    slope, intercept = (np.float32(item.numbers[field][0]) for field in ("RescaleSlope", "RescaleIntercept"))
    hu: NDArray[np.float32] = stored.astype(np.float32) * slope + intercept
    return hu
