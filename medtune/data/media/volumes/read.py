"""Reads a volume from a path, whichever of the known file formats lies there.

Shows a CT volume as axial slices, for models that read images or videos but no volumes.

Slices are shown as radiologists see them, front up and the patient's right on the left, and follow one another from
foot to head. Only the chosen slices are reoriented and windowed, so that a scan of a thousand slices takes no more
memory than its file.

Shape legend: T slices, H height, W width, C red, green and blue; i, j, k as in `Volume`.

Reads a folder with one DICOM series as a volume; it never reads tags that do not describe pixels and their place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.compressed_dicom import stored_values
from medtune.data.media.dicom import LAYOUT_TAGS, is_dicom
from medtune.data.media.stored_media import check_bytes
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES, nifti_grid, read_nifti, read_nifti_mask
from medtune.data.media.volumes.formats.other_formats import (
    CD_EXPORT,
    DIRECTORY,
    ENHANCED,
    holds_no_pixels,
    is_directory,
    other_format,
)
from medtune.data.media.volumes.formats.scaled_array import ARRAY_SUFFIX, read_scaled_array
from medtune.data.media.volumes.formats.stored_volume import STORED_SUFFIX, read_stored_grid, read_stored_volume
from medtune.data.media.volumes.geometry import Grid, compact_hu, geometry_of, grid_of, reoriented
from medtune.data.media.volumes.transforms.organ_crop import box_around
from medtune.data.types import Frames, MediaRef, Size, Video, Volume, VolumesAs

Box = tuple[slice, slice, slice]
_BOXES: dict[MediaRef, Box] = {}
_MOST_BOXES = 100_000
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


class HuRange(NamedTuple):
    """The range of Hounsfield units that a colour channel shows, from black at `low_hu` to full at `high_hu`."""

    low_hu: float
    high_hu: float


@dataclass(frozen=True, slots=True)
class AxialPictures:
    """A rule that turns a CT volume into axial pictures."""

    channels: tuple[HuRange, HuRange, HuRange]  # The range that red, green and blue show.
    at_most: int  # The highest number of slices; a scan with no more slices gives all of them.
    # A function of (slices of the scan, slices wanted) that returns the chosen numbers, counted from the foot. It is
    # called only if the scan has more slices than wanted.
    chosen: Callable[[int, int], list[int]]
    per_s: float  # The number of pictures a second, for models that are told the time; a scan itself has no times.

    def __call__(self, volume: Volume) -> Video:
        axis = _axial(volume.orientation)
        numbers = self._numbers(volume.hu_IJK.shape[axis])
        from_foot = numbers if volume.orientation[axis] == "S" else [volume.hu_IJK.shape[axis] - 1 - n for n in numbers]
        # The slices are taken in their order from the foot, so that the axis now points to the head.
        letters = volume.orientation.replace("I", "S")
        few = Volume(volume.hu_IJK.take(from_foot, axis=axis), volume.spacing_mm, letters)
        slices_WHT = reoriented(few, "LPS").hu_IJK
        frames_THWC = np.empty((*slices_WHT.T.shape, len(self.channels)), dtype=np.uint8)
        for frame_HWC, hu_HW in zip(frames_THWC, slices_WHT.T, strict=True):
            for channel, window in enumerate(self.channels):
                frame_HWC[..., channel] = _windowed(hu_HW, window)
        return Video(frames_THWC, self._times_s(len(numbers)))

    def frames(self, ref: MediaRef) -> Frames:
        """Returns the size and times of the pictures of a volume, from the file's header where it has one."""
        grid = seen_grid(ref)
        width, height, count = (_length(grid, letters) for letters in ("LR", "PA", "SI"))
        return Frames(Size(width, height), self._times_s(len(self._numbers(count))))

    def _numbers(self, count: int) -> list[int]:
        return list(range(count)) if count <= self.at_most else self.chosen(count, self.at_most)

    def _times_s(self, count: int) -> tuple[float, ...]:
        return tuple(number / self.per_s for number in range(count))


def section_ends(count: int, wanted: int) -> list[int]:
    """Returns the upper ends of `wanted` equal sections of a scan's slices: the last slice, but never the first.

    >>> section_ends(101, 4), section_ends(10, 4)
    ([25, 50, 75, 100], [2, 4, 7, 9])

    Source: google-health/medgemma@ff57e8c2, notebooks/high_dimensional_ct_hugging_face.ipynb.
    """
    return [round(number / wanted * (count - 1)) for number in range(1, wanted + 1)]


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """Returns `wanted` numbers spread evenly over 0 to `count` - 1, first and last included; few occur several times.

    >>> evenly_spaced(101, 5), evenly_spaced(2, 4), evenly_spaced(10, 1)
    ([0, 25, 50, 75, 100], [0, 0, 1, 1], [4])
    """
    if wanted == 1:
        return [(count - 1) // 2]
    return [round(number * (count - 1) / (wanted - 1)) for number in range(wanted)]


_SOFT_TISSUE = HuRange(-150, 250)

SLICES = AxialPictures(
    channels=(HuRange(-1024, 1024), HuRange(-135, 215), HuRange(0, 80)), at_most=85, chosen=section_ends, per_s=1.0
)
"""The slices that MedGemma 1.5 reads: 85 slices with everything in red, soft tissue in green and brain in blue.

Source: as `section_ends`. One second from slice to slice is our choice, for models that show them as a video.
"""

VIDEO = AxialPictures(channels=(_SOFT_TISSUE,) * 3, at_most=150, chosen=evenly_spaced, per_s=8.0)
"""A grey video of 150 frames, 8 a second, with a window of 400 HU around 50 HU.

Source: Schuture/DeepTumorVQA@1df7460d, HF_README and scripts/extract_train_videos.py; its choice of frames is not
published, and even spacing is our choice.
"""

SLICE = AxialPictures(channels=(_SOFT_TISSUE,) * 3, at_most=1, chosen=evenly_spaced, per_s=1.0)
"""A single grey slice, with a window of 400 HU around 50 HU.

Source: Schuture/DeepTumorVQA@1df7460d, HF_README (images_2d/whole) and data/prompt.py; its choice of the slice is not
published, and the middle one is our choice.
"""

_WAYS: dict[VolumesAs, AxialPictures] = {"slices": SLICES, "video": VIDEO, "slice": SLICE}


def axial_pictures(way: VolumesAs, *, at_most: int | None) -> AxialPictures:
    """Returns the rule of a name that turns volumes into slices, with at most so many if a number is given.

    A single slice stays a single slice.
    """
    return _WAYS[way] if at_most is None or way == "slice" else replace(_WAYS[way], at_most=at_most)


def _windowed(hu_HW: NDArray[np.generic], window: HuRange) -> NDArray[np.uint8]:
    low, high = window
    scaled_HW = (np.clip(hu_HW.astype(np.float32), low, high) - low) / (high - low)
    return np.asarray(np.rint(scaled_HW * 255), dtype=np.uint8)


def _axial(orientation: str) -> int:
    return next(axis for axis, letter in enumerate(orientation) if letter in "SI")


def _length(grid: Grid, letters: str) -> int:
    return next(length for length, letter in zip(grid.shape, grid.orientation, strict=True) if letter in letters)


if TYPE_CHECKING:
    from pydicom.dataset import Dataset


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
