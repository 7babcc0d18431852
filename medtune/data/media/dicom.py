"""Decodes DICOM images and cines into RGB pixels; it never reads tags that do not describe pixels.

Shapes: T frames, H height, W width, C channels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.compressed_dicom import has_decoder, stored_values

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

# The patient's name, dates and free texts are never read, so that no error message and no cache can contain them.
LAYOUT_TAGS = (
    "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "Rows", "Columns",
    "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "RescaleSlope", "RescaleIntercept", "PixelData",
)  # fmt: skip
"""The tags that every reader of DICOM needs: the layout of the stored values and their linear scale."""
_PICTURE_TAGS = (
    *LAYOUT_TAGS, "ModalityLUTSequence", "RescaleType", "VOILUTSequence", "VOILUTFunction", "WindowCenter",
    "WindowWidth", "RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData", "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData", "SegmentedRedPaletteColorLookupTableData",
    "SegmentedGreenPaletteColorLookupTableData", "SegmentedBluePaletteColorLookupTableData", "FloatPixelData",
    "DoubleFloatPixelData", "PixelPaddingValue", "PixelPaddingRangeLimit",
)  # fmt: skip
_TIME_TAGS = ("FrameTime", "FrameTimeVector", "CineRate", "RecommendedDisplayFrameRate")
_GREY = ("MONOCHROME1", "MONOCHROME2")
_PALETTE = "PALETTE COLOR"
_COLOUR = ("RGB", "YBR")

_LONGEST_STEP_MS = 1e6
"""No cine shows a frame for a quarter of an hour (our own choice)."""


class _Range(NamedTuple):
    low: float
    high: float


def decode_dicom(path: Path) -> NDArray[np.uint8]:
    """Returns the pixels of a single-frame DICOM file, RGB, (H, W, 3).

    Grey values go through the modality LUT and then through the first VOI LUT or window of the file, whose output range
    becomes 0 to 255. Without a window, values of 8 bits or fewer that no modality LUT changes keep their place in the
    stored range; all others are stretched, the lowest to 0, the highest to 255. MONOCHROME1 is inverted. Padding takes
    no part in the stretch and becomes black. Palettes and YBR become RGB; colours of more than 8 bits are scaled by the
    stored range.

    Source: DICOM PS3.3 C.7.6.3.1.2, C.7.5.1.1.2 (padding) and C.11; the formulas are those of pydicom.pixels.
    """
    return _decoded(path, _read(path))


class Cine(NamedTuple):
    """The frames of a multi-frame DICOM file."""

    frames_THWC: NDArray[np.uint8]  # The frames, RGB, uint8.
    times_s: tuple[float, ...]  # The second at which each frame is shown, starting at 0.
    duration_s: float  # The second at which the last frame ends.


def decode_cine(path: Path, frames_per_s: float | None = None) -> Cine:
    """Returns the frames of a cine DICOM file, decoded as `decode_dicom` decodes an image, and their times.

    Grey values that need stretching are stretched alike in all frames. The times come from Frame Time Vector, Frame
    Time, Cine Rate or Recommended Display Frame Rate; the first of these that the file has is used. Where it has none,
    they follow from the frames a second that are given.

    Source: DICOM PS3.3 C.7.6.5.
    """
    dataset = _read(path, is_cine=True)
    frames_THWC = _decoded(path, dataset)
    if frames_THWC.ndim == 3:
        frames_THWC = frames_THWC[None]
    steps_ms = _told_steps_ms(path, dataset, len(frames_THWC))
    if steps_ms is None and frames_per_s is not None:
        steps_ms = np.full(len(frames_THWC), _per_s(frames_per_s))
    if steps_ms is None:
        raise ValueError(
            f"{path}: the file does not say how fast its frames follow on one another (no Frame Time, Frame Time "
            "Vector, Cine Rate or Recommended Display Frame Rate). Say it (--frames-per-s N), or export it as "
            "MP4."
        )
    ends_s = np.cumsum(steps_ms) / 1000
    return Cine(frames_THWC, (0.0, *ends_s[:-1].tolist()), float(ends_s[-1]))


def _told_steps_ms(path: Path, dataset: Dataset, num_frames: int) -> NDArray[np.float64] | None:
    """Returns the milliseconds from each frame to the next as the file tells them; None where it tells none."""
    try:
        steps_ms = _steps_ms(dataset, num_frames)
    # The error would quote the header.
    except (ValueError, TypeError, OverflowError, ZeroDivisionError, KeyError):
        steps_ms = np.full(num_frames, np.nan)
    if steps_ms is not None and not (np.isfinite(steps_ms) & (steps_ms > 0) & (steps_ms < _LONGEST_STEP_MS)).all():
        raise ValueError(
            f"{path}: {', '.join(_TIME_TAGS)}: one of these is no time or rate of frames. Correct the tag, or take it "
            "out, and say the rate: --frames-per-s N"
        )
    return steps_ms


def _steps_ms(dataset: Dataset, num_frames: int) -> NDArray[np.float64] | None:
    vector = dataset.get("FrameTimeVector")
    if vector is not None and len(vector) == num_frames and num_frames > 1:
        # The first entry is the first frame's own time, 0; every other entry is the time before its frame.
        return np.asarray([*vector[1:], vector[-1]], dtype=np.float64)
    for name, to_ms in (("FrameTime", float), ("CineRate", _per_s), ("RecommendedDisplayFrameRate", _per_s)):
        value = dataset.get(name)
        if value:
            return np.full(num_frames, to_ms(value))
    return None


def _per_s(rate: float) -> float:
    return 1000 / float(rate)


def is_dicom(path: Path) -> bool:
    """Returns whether a file begins like a DICOM file."""
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def says_burned_in(path: Path) -> bool:
    """Returns whether a DICOM file, or one of a folder, says that text is burned into its pixels; others say nothing.

    Source: DICOM PS3.3 C.7.6.1 (Burned In Annotation).
    """
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not file.is_file() or not is_dicom(file):
            continue
        import pydicom

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A file that is broken is refused where its pixels are read.
            try:
                said = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=["BurnedInAnnotation"])
                if str(said.get("BurnedInAnnotation") or "").strip().upper() == "YES":
                    return True
            except Exception:
                continue
    return False


def _decoded(path: Path, dataset: Dataset) -> NDArray[np.uint8]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pixels = _to_rgb(dataset)
            if pixels.ndim not in (3, 4) or pixels.shape[-1] != 3 or (pixels.ndim == 4) != (_num_frames(dataset) > 1):
                raise _WrongTagError(
                    "SamplesPerPixel (0028,0002) and PhotometricInterpretation (0028,0004) do not fit one another"
                )
            return pixels
        except _WrongTagError as error:
            raise ValueError(f"{path}: {error}. Correct the tag, or take it out.") from None
        # Any of pydicom's many errors may quote the header, so that only the kind of error is passed on.
        except Exception as error:
            if (wrong := _wrong_tag(dataset)) is not None:
                raise ValueError(f"{path}: {wrong}. Correct the tag, or take it out.") from None
            if (unread := _unread_encoding(dataset)) is not None:
                raise ValueError(
                    f"{path}: its pixels are compressed as {unread}, which nothing here decodes. Decompress it "
                    "(gdcmconv --raw), or export it as PNG or MP4."
                ) from None
            raise ValueError(
                f"{path}: the pixels of this DICOM file do not decode ({type(error).__name__}): truncated or damaged. "
                "Copy it again."
            ) from None


def _unread_encoding(dataset: Dataset) -> str | None:
    """Returns the name of a file's encoding if pydicom has no decoder of it, else None."""
    from pydicom.pixels.decoders.base import get_decoder

    syntax = dataset.file_meta.get("TransferSyntaxUID")
    if syntax is None or has_decoder(dataset):
        return None
    try:
        return None if get_decoder(syntax).is_available else str(syntax.name)
    except NotImplementedError:
        return str(syntax.name)


def _wrong_tag(dataset: Dataset) -> str | None:
    """Returns which tag of a file whose pixels do not decode has no sense, and what it should be; else None."""
    try:
        return _odd_tag(dataset)
    # The error of a tag that is no number would quote it.
    except Exception:
        return None


def _odd_tag(dataset: Dataset) -> str | None:
    width = dataset.get("WindowWidth")
    least = 1 if str(dataset.get("VOILUTFunction") or "LINEAR") == "LINEAR" else 0
    if width is not None and not dataset.get("VOILUTSequence"):
        first = float(width[0] if isinstance(width, Sequence) and not isinstance(width, str) else width)
        if first < least or first <= 0:
            return f"WindowWidth (0028,1051) is {first:g}, wanted {'at least 1' if least else 'more than 0'}"
    allocated, stored = int(dataset.get("BitsAllocated") or 0), int(dataset.get("BitsStored") or 0)
    if allocated not in (1, 8, 16, 32, 64):
        return f"BitsAllocated (0028,0100) is {allocated}, wanted 1, 8, 16, 32 or 64"
    if not 0 < stored <= allocated:
        return f"BitsStored (0028,0101) is {stored}, wanted 1 to BitsAllocated ({allocated})"
    if (samples := dataset.get("SamplesPerPixel")) not in (None, 1, 3):
        return f"SamplesPerPixel (0028,0002) is {int(samples)}, wanted 1 or 3"
    if min(int(dataset.Rows or 0), int(dataset.Columns or 0)) < 1:
        return f"Rows (0028,0010) and Columns (0028,0011) are {dataset.Rows} and {dataset.Columns}, wanted at least 1"
    return None


def dicom_size(path: Path) -> tuple[int, int]:
    """Returns the (width, height) of a DICOM image from its header."""
    dataset = _read(path)
    try:
        width, height = int(dataset.Columns), int(dataset.Rows)
    except (ValueError, TypeError):
        width, height = 0, 0
    if min(width, height) < 1:
        raise ValueError(f"{path}: Rows (0028,0010) and Columns (0028,0011) have to be numbers of at least 1.")
    return width, height


def stretch(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns an image's grey values scaled so that the lowest is 0 and the highest 255; one single value becomes 0.

    >>> stretch(np.array([[100.0, 200.0, 300.0]])).tolist()
    [[0, 128, 255]]
    """
    return _scale(values, _Range(float(values.min()), float(values.max())))


def _read(path: Path, *, is_cine: bool = False) -> Dataset:
    import pydicom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = pydicom.dcmread(path, specific_tags=[*_PICTURE_TAGS, *_TIME_TAGS])
            num_frames, kind = _num_frames(dataset), _sop_class(dataset)
            getattr(dataset, "file_meta", {}).get("TransferSyntaxUID")  # Is converted now.
            whole = all(name in dataset for name in ("Rows", "Columns", "PhotometricInterpretation"))
        # Any of pydicom's many errors may quote the header, so that only the kind of error is passed on.
        except Exception as error:
            raise ValueError(
                f"{path}: this DICOM file is truncated or damaged ({type(error).__name__}). Copy or download it again."
            ) from None
    if kind == "Media Storage Directory Storage":
        raise ValueError(
            f"{path}: this is the DICOMDIR of a CD export, which lists the pictures in the folders beside it. Name "
            "these."
        )
    if num_frames > 1 and not is_cine:
        is_scan = kind.startswith("Enhanced")
        how = "It is a scan: convert it (dcm2niix), and call its column volume" if is_scan else "Read it as a video"
        raise ValueError(
            f"{path}: wanted a single-frame DICOM file, this one is multi-frame ({num_frames} frames). {how}, or "
            "export the frame that you need as PNG or as a DICOM file of its own."
        )
    if not whole or not any(name in dataset for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise ValueError(f"{path}: this DICOM file holds no picture (a report or structure?), or is truncated.")
    if not str(dataset.PhotometricInterpretation).startswith((*_GREY, _PALETTE, *_COLOUR)):
        raise ValueError(
            f"{path}: wanted MONOCHROME1, MONOCHROME2, RGB, YBR or PALETTE COLOR, the file has other colours. "
            "Export it as PNG."
        )
    return dataset


def _num_frames(dataset: Dataset) -> int:
    return int(dataset.get("NumberOfFrames") or 1)


def _sop_class(dataset: Dataset) -> str:
    from pydicom.uid import UID

    return UID(str(getattr(dataset, "file_meta", {}).get("MediaStorageSOPClassUID", ""))).name


def _to_rgb(dataset: Dataset) -> NDArray[np.uint8]:
    from pydicom.pixels.processing import apply_color_lut

    stored = stored_values(dataset)
    interpretation = str(dataset.PhotometricInterpretation)
    stored_range = _Range(0.0, 2.0 ** int(dataset.get("BitsStored", 8)) - 1.0)
    if interpretation in _GREY:
        grey = _grey(stored, dataset, stored_range)
        if interpretation == "MONOCHROME1":
            grey = 255 - grey
        if (is_padding := _padding(stored, dataset)) is not None:
            grey[is_padding] = 0
        return np.repeat(grey[..., None], 3, axis=-1)
    if interpretation == _PALETTE:
        highest = _plain_palette(dataset)
        colours = apply_color_lut(stored, dataset)
        # Entries of 8 bits may stand in 16, whatever the descriptor says.
        is_narrow = colours.dtype.itemsize == 1 or 0 < highest <= 255
        return _scale(colours[..., :3], _Range(0.0, 255.0 if is_narrow else 65535.0))
    return _scale(stored, stored_range)


def _plain_palette(dataset: Dataset) -> int:
    """Writes the entries of a palette in little endian, which alone pydicom reads, and returns the highest of them.

    A file may give them as numbers, or in the order of a big-endian file; 0 stands for a palette in segments.
    """
    highest = 0
    for colour in ("Red", "Green", "Blue"):
        name = f"{colour}PaletteColorLookupTableData"
        data = dataset.get(name)
        if data is None:
            continue
        entries = int(dataset[f"{colour}PaletteColorLookupTableDescriptor"].value[0]) or 2**16
        if not isinstance(data, bytes):
            values = np.atleast_1d(np.asarray(data)).astype("<u2")
        elif len(data) < 2 * entries:
            values = np.frombuffer(data, "u1")
        else:
            is_little = dataset.file_meta.TransferSyntaxUID.is_little_endian
            values = np.frombuffer(data, "<u2" if is_little else ">u2").astype("<u2")
        dataset[name].VR, dataset[name].value = "OW", values.tobytes()
        highest = max(highest, int(values.max()))
    return highest


def _grey(stored: NDArray[np.generic], dataset: Dataset, stored_range: _Range) -> NDArray[np.uint8]:
    from pydicom.pixels.processing import apply_modality_lut, apply_voi, apply_windowing

    values = apply_modality_lut(stored, dataset)
    is_padding = _padding(stored, dataset)
    shown = values if is_padding is None or is_padding.all() else values[~is_padding]
    if dataset.get("VOILUTSequence"):
        bits = int(dataset.VOILUTSequence[0].LUTDescriptor[2])
        _check_shown(shown, apply_voi(shown, dataset), "VOILUTSequence (0028,3010)")
        return _scale(apply_voi(values, dataset), _Range(0.0, 2.0**bits - 1.0))
    if None not in (dataset.get("WindowCenter"), dataset.get("WindowWidth")):
        # Values far outside of any window become exactly the ends of the range that pydicom scales to; with a negative
        # rescale slope the first of them is the higher one.
        ends = apply_windowing(np.array([-1e12, 1e12]), dataset)
        span = np.array([float(shown.min()), float(shown.max())])
        _check_shown(span, apply_windowing(span, dataset), "WindowCenter and WindowWidth (0028,1050 and 0028,1051)")
        return _scale(apply_windowing(values, dataset), _Range(float(ends[0]), float(ends[1])))
    if stored_range.high <= 255 and np.array_equal(values, stored) and int(stored.min()) >= 0:
        return _scale(values, stored_range)
    return _scale(values, _Range(float(shown.min()), float(shown.max())))


class _WrongTagError(ValueError):
    """The error of a tag that hides the picture; it says nothing of the patient."""


def _check_shown(values: NDArray[np.generic], seen: NDArray[np.generic], tag: str) -> None:
    if seen.min() == seen.max() and values.min() != values.max():
        raise _WrongTagError(
            f"{tag} shows none of the picture's values, which lie between {float(values.min()):g} and "
            f"{float(values.max()):g}: it would be of one grey"
        )


def _integer(value: int | bytes, dataset: Dataset) -> int:
    if not isinstance(value, bytes):
        return int(value)
    # A file without VRs leaves open whether the value has a sign.
    return int.from_bytes(value, "little", signed=int(dataset.get("PixelRepresentation") or 0) == 1)


def _padding(stored: NDArray[np.generic], dataset: Dataset) -> NDArray[np.bool_] | None:
    """Returns where the stored values are padding; None where the file names no padding."""
    first = dataset.get("PixelPaddingValue")
    if first is None:
        return None
    last = dataset.get("PixelPaddingRangeLimit")
    ends = sorted(_integer(value, dataset) for value in (first, first if last is None else last))
    values = stored.astype(np.int64)
    return np.asarray((values >= ends[0]) & (values <= ends[1]))


def _scale(values: NDArray[np.generic], span: _Range) -> NDArray[np.uint8]:
    if values.dtype == np.uint8 and span == (0.0, 255.0):
        return np.ascontiguousarray(values, dtype=np.uint8)
    if span.high == span.low:
        return np.zeros(values.shape, np.uint8)
    shares = (values.astype(np.float64) - span.low) / (span.high - span.low)
    return np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8)
