"""Decodes the pixels of DICOM files, those in JPEG Lossless, JPEG-LS and JPEG of 12 bits too.

pydicom does so with Pillow, GDCM and OpenJPEG (HTJ2K), but for some precisions of these three, which GDCM decodes from
a file with the pixels and their layout alone, so that no message of it can quote the patient.

Source: DICOM PS3.5 A.4 (transfer syntaxes) and 8.2 (compressed pixels).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_LAYOUT = (
    "SamplesPerPixel", "PlanarConfiguration", "NumberOfFrames", "Rows", "Columns", "BitsAllocated", "BitsStored",
    "HighBit", "PixelRepresentation", "PixelData",
)  # fmt: skip
_STDERR = 2
_SUBSAMPLED = "YBR_FULL_422"


def is_for_gdcm(dataset: Dataset) -> bool:
    """Returns whether the pixels are compressed in a way that GDCM decodes and neither pydicom nor Pillow does."""
    from pydicom import uid

    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax == uid.JPEGExtended12Bit:
        return int(dataset.get("BitsStored") or 0) > 8
    return syntax in (uid.JPEGLossless, uid.JPEGLosslessSV1, uid.JPEGLSLossless, uid.JPEGLSNearLossless)


def stored_values(dataset: Dataset) -> NDArray[np.generic]:
    """Returns the stored values of a file's pixels, of all its frames, in the colours in which pydicom gives them."""
    from pydicom.pixels.utils import pixel_array

    _decompress(dataset)
    with _quiet() if dataset.file_meta.TransferSyntaxUID.is_compressed else nullcontext():
        return pixel_array(dataset)


def _decompress(dataset: Dataset) -> None:
    """Replaces pixels that only GDCM decodes by the same pixels without compression; leaves others as they are."""
    if not is_for_gdcm(dataset):
        return
    from pydicom.uid import ExplicitVRLittleEndian

    sign, allocated = "i" if int(dataset.get("PixelRepresentation") or 0) else "u", int(dataset.BitsAllocated)
    values = _decoded(dataset).astype(f"<{sign}{allocated // 8}")
    content = values.tobytes()
    dataset.PixelData = content + b"\0" * (len(content) % 2)
    dataset["PixelData"].VR = "OB" if allocated <= 8 else "OW"
    dataset["PixelData"].is_undefined_length = False
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    if int(dataset.get("SamplesPerPixel") or 1) > 1:
        dataset.PlanarConfiguration = 0
    if dataset.PhotometricInterpretation == _SUBSAMPLED:
        dataset.PhotometricInterpretation = "YBR_FULL"


def _decoded(dataset: Dataset) -> NDArray[np.generic]:
    """Returns the stored values as GDCM decodes them, without any change of colours or scale."""
    import gdcm
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = dataset.file_meta.TransferSyntaxUID
    bare = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    bare.SOPClassUID, bare.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    for name in _LAYOUT:
        if name in dataset:
            bare[name] = dataset[name]
    bare.PhotometricInterpretation = "RGB" if int(dataset.get("SamplesPerPixel") or 1) == 3 else "MONOCHROME2"
    gdcm.Trace.WarningOff()
    gdcm.Trace.ErrorOff()
    with tempfile.TemporaryDirectory(prefix="medtune-") as folder:
        path = Path(folder) / "pixels.dcm"
        bare.save_as(path, enforce_file_format=True)
        reader = gdcm.ImageReader()
        reader.SetFileName(str(path))
        with _quiet():
            content = reader.GetImage().GetBuffer() if reader.Read() else ""
    form = reader.GetImage().GetPixelFormat()
    sign = "i" if form.GetPixelRepresentation() else "u"
    # GDCM gives bytes as text.
    return np.frombuffer(content.encode("utf-8", "surrogateescape"), f"{sign}{form.GetBitsAllocated() // 8}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides what decoders print on their own: GDCM's try one precision after another, and say of each that it fails."""
    kept, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(nowhere)
