"""Decodes the pixels of DICOM files, those in JPEG Lossless, JPEG-LS, JPEG 2000, HTJ2K and JPEG of 12 bits too.

pydicom and Pillow decode the other encodings; Pillow reads not every JPEG 2000. imagecodecs decodes these from a
frame's bytes alone, so that no message of it can quote the patient, and ends no process over damaged ones, as GDCM for
Python does.

Source: DICOM PS3.5 A.4 (transfer syntaxes) and 8.2 (compressed pixels).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_END_OF_IMAGE, _PADDING = b"\xff\xd9", 16
_DECODED_AS = {"YBR_FULL_422": "YBR_FULL", "YBR_RCT": "RGB", "YBR_ICT": "RGB"}
"""The colours in which decoders give those that the header names."""
_Decode = Callable[[bytes], NDArray[np.generic]]


def has_decoder(dataset: Dataset) -> bool:
    """Returns whether the pixels are compressed in a way that pydicom and Pillow leave to others."""
    return _decoder(dataset) is not None


def stored_values(dataset: Dataset) -> NDArray[np.generic]:
    """Returns the stored values of a file's pixels, of all its frames, in the colours in which pydicom gives them."""
    from pydicom.pixels.utils import pixel_array

    if (decode := _decoder(dataset)) is not None:
        _decompress(dataset, decode)
    return pixel_array(dataset)


def _decoder(dataset: Dataset) -> _Decode | None:
    import imagecodecs
    from pydicom import uid

    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax in (uid.JPEGLosslessSV1, uid.JPEGLossless) or (
        syntax == uid.JPEGExtended12Bit and int(dataset.get("BitsStored") or 0) > 8
    ):
        is_colour = int(dataset.get("SamplesPerPixel") or 1) == 3
        # The values as they are: what colours they mean is said in the header.
        kept = "RGB" if is_colour else "GRAYSCALE"
        return lambda frame: np.asarray(
            imagecodecs.jpeg8_decode(_ended_frame(frame), colorspace=kept, outcolorspace=kept)
        )
    if syntax in (uid.JPEGLSLossless, uid.JPEGLSNearLossless):
        return lambda frame: np.asarray(imagecodecs.jpegls_decode(_ended_frame(frame)))
    if syntax in (uid.JPEG2000Lossless, uid.JPEG2000):
        return lambda frame: np.asarray(imagecodecs.jpeg2k_decode(frame))
    if syntax in (uid.HTJ2KLossless, uid.HTJ2KLosslessRPCL, uid.HTJ2K):
        return _htj2k
    return None


@contextmanager
def _heard() -> Iterator[None]:
    """Raises what imagecodecs' decoder of HTJ2K meets within its callback, which Python would only print."""
    met, shown, unraised = list[str](), sys.excepthook, sys.unraisablehook
    sys.excepthook = lambda *told: met.append("damage")
    sys.unraisablehook = lambda told: met.append("damage")
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook = shown, unraised
    if met:
        raise ValueError("a frame is damaged")


def _htj2k(frame: bytes) -> NDArray[np.generic]:
    import imagecodecs

    with _heard():
        return np.asarray(imagecodecs.htj2k_decode(_ended_frame(frame)))


def _ended_frame(frame: bytes) -> bytes:
    """Returns a JPEG, JPEG-LS or HTJ2K that has its end, without which decoders fill the rest or search it for long."""
    if _END_OF_IMAGE not in frame[-_PADDING:]:
        raise ValueError("a frame has no end")
    return frame


def _decompress(dataset: Dataset, decode: _Decode) -> None:
    """Replaces compressed pixels by the same pixels without compression."""
    from pydicom.encaps import generate_frames
    from pydicom.uid import ExplicitVRLittleEndian

    number, samples = int(dataset.get("NumberOfFrames") or 1), int(dataset.get("SamplesPerPixel") or 1)
    size = (int(dataset.Rows), int(dataset.Columns), *([samples] if samples > 1 else []))
    frames = [decode(frame) for frame in generate_frames(dataset.PixelData, number_of_frames=number)]
    if len(frames) != number or any(frame.shape != size for frame in frames):
        raise ValueError("the frames have another size or number than the header says")
    content = _as_said(np.stack(frames), dataset).tobytes()
    dataset.PixelData = content + b"\0" * (len(content) % 2)
    dataset["PixelData"].VR = "OB" if int(dataset.BitsAllocated) <= 8 else "OW"
    dataset["PixelData"].is_undefined_length = False
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    if samples > 1:
        dataset.PlanarConfiguration = 0
    colours = str(dataset.PhotometricInterpretation)
    dataset.PhotometricInterpretation = _DECODED_AS.get(colours, colours)


def _as_said(values: NDArray[np.generic], dataset: Dataset) -> NDArray[np.generic]:
    """Returns decoded values in the type that the header names; decoders know no sign."""
    allocated, stored = int(dataset.BitsAllocated), int(dataset.BitsStored)
    if allocated not in (8, 16, 32) or not 0 < stored <= allocated:
        raise ValueError("the header names no type of values")
    whole = values.astype(f"<u{allocated // 8}")
    if int(dataset.get("PixelRepresentation") or 0) == 0:
        return whole
    spare = allocated - stored
    return np.asarray((whole << spare).view(f"<i{allocated // 8}") >> spare)
