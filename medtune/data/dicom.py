"""Single-frame DICOM files become RGB pixels; only tags that describe pixels are ever read.

Shapes: H height, W width, C channels.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi, apply_windowing
from pydicom.pixels.utils import pixel_array

# The patient's name, dates and free text stay on disk, so that no error and no cache can carry them.
_PIXEL_TAGS = [
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "PlanarConfiguration",
    "NumberOfFrames",
    "Rows",
    "Columns",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "ModalityLUTSequence",
    "RescaleSlope",
    "RescaleIntercept",
    "RescaleType",
    "VOILUTSequence",
    "VOILUTFunction",
    "WindowCenter",
    "WindowWidth",
    "RedPaletteColorLookupTableDescriptor",
    "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor",
    "RedPaletteColorLookupTableData",
    "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData",
    "SegmentedRedPaletteColorLookupTableData",
    "SegmentedGreenPaletteColorLookupTableData",
    "SegmentedBluePaletteColorLookupTableData",
    "FloatPixelData",
    "DoubleFloatPixelData",
    "PixelData",
]
_GREY = ("MONOCHROME1", "MONOCHROME2")
_PALETTE = "PALETTE COLOR"
_COLOUR = ("RGB", "YBR")


class _Range(NamedTuple):
    low: float
    high: float


def decode_dicom(path: Path) -> NDArray[np.uint8]:
    """Returns the picture of a single-frame DICOM file, RGB, (H, W, 3).

    Grey: the modality LUT, then the first VOI LUT or window of the file, whose output range becomes 0 to 255.
    Without a window, values of 8 bits or fewer that no modality LUT changes keep their place in the stored range;
    all others are stretched, the lowest to 0, the highest to 255. MONOCHROME1 is inverted last. Colour: palettes
    and YBR become RGB; wider than 8 bits is scaled by the stored range.

    Raises:
        ValueError: Several frames, no pixels, an unknown photometric interpretation, or pixels that do not decode.
            The message never holds a value from the header.

    Source: DICOM PS3.3 C.7.6.3.1.2 and C.11; the formulas are those of pydicom.pixels.
    """
    dataset = _read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _to_rgb(dataset)
        # Any of pydicom's many errors may quote the header: only its kind is told on.
        except Exception as error:
            raise ValueError(
                f"{path}: the pixels of this DICOM file do not decode ({type(error).__name__}): truncated, damaged, or "
                "compressed in a way that is not supported. Copy it again, or decompress it (gdcmconv --raw)."
            ) from None


def dicom_size(path: Path) -> tuple[int, int]:
    """Returns (width, height) from the header.

    Raises:
        ValueError: As for `decode_dicom`.
    """
    dataset = _read(path)
    return int(dataset.Columns), int(dataset.Rows)


def stretch(values_HW: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns grey values scaled so that the lowest is 0 and the highest 255; an even image becomes 0.

    Example:
        >>> stretch(np.array([[100.0, 200.0, 300.0]])).tolist()
        [[0, 128, 255]]
    """
    return _scale(values_HW, _Range(float(values_HW.min()), float(values_HW.max())))


def _read(path: Path) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(path, specific_tags=_PIXEL_TAGS)
            num_frames = int(dataset.get("NumberOfFrames") or 1)
            whole = all(name in dataset for name in ("Rows", "Columns", "PhotometricInterpretation"))
        # Any of pydicom's many errors may quote the header: only its kind is told on.
        except Exception as error:
            raise ValueError(
                f"{path}: this DICOM file is truncated or damaged ({type(error).__name__}). Copy or download it again."
            ) from None
    if num_frames > 1:
        raise ValueError(
            f"{path}: wanted a single-frame DICOM file, this one is multi-frame ({num_frames} frames). "
            "Export the frame that you need as PNG or as a DICOM file of its own."
        )
    if not whole or not any(name in dataset for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise ValueError(f"{path}: this DICOM file holds no picture (a report or structure?), or is truncated.")
    if not str(dataset.PhotometricInterpretation).startswith((*_GREY, _PALETTE, *_COLOUR)):
        raise ValueError(
            f"{path}: wanted MONOCHROME1, MONOCHROME2, RGB, YBR or PALETTE COLOR, the file has other colours. "
            "Export it as PNG."
        )
    return dataset


def _to_rgb(dataset: Dataset) -> NDArray[np.uint8]:
    interpretation = str(dataset.PhotometricInterpretation)
    stored = pixel_array(dataset)
    stored_range = _Range(0.0, 2.0 ** int(dataset.get("BitsStored", 8)) - 1.0)
    if interpretation in _GREY:
        grey_HW = _grey(stored, dataset, stored_range)
        if interpretation == "MONOCHROME1":
            grey_HW = 255 - grey_HW
        return np.repeat(grey_HW[:, :, None], 3, axis=2)
    if interpretation == _PALETTE:
        colours_HWC = apply_color_lut(stored, dataset)
        return _scale(colours_HWC[:, :, :3], _Range(0.0, float(np.iinfo(colours_HWC.dtype).max)))
    return _scale(stored, stored_range)


def _grey(stored_HW: NDArray[np.generic], dataset: Dataset, stored_range: _Range) -> NDArray[np.uint8]:
    values_HW = apply_modality_lut(stored_HW, dataset)
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        return _scale(apply_voi(values_HW, dataset), _Range(0.0, 2.0**bits - 1.0))
    if None not in (dataset.get("WindowCenter"), dataset.get("WindowWidth")):
        # Far outside any window lie exactly the ends of the range that pydicom scales to.
        ends = apply_windowing(np.array([-1e12, 1e12]), dataset)
        return _scale(apply_windowing(values_HW, dataset), _Range(float(ends[0]), float(ends[1])))
    if stored_range.high <= 255 and np.array_equal(values_HW, stored_HW) and int(stored_HW.min()) >= 0:
        return _scale(values_HW, stored_range)
    return stretch(values_HW.astype(np.float64))


def _scale(values: NDArray[np.generic], span: _Range) -> NDArray[np.uint8]:
    if values.dtype == np.uint8 and span == (0.0, 255.0):
        return np.ascontiguousarray(values, dtype=np.uint8)
    if span.high <= span.low:
        return np.zeros(values.shape, np.uint8)
    shares = (values.astype(np.float64) - span.low) / (span.high - span.low)
    return np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8)
