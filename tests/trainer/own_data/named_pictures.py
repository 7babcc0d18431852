"""Writes pictures and films with a person's name in every place of their headers and containers that holds text."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pydicom
from numpy.typing import NDArray
from PIL import PngImagePlugin, TiffImagePlugin
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

_EXIF_TEXTS = (0x010D, 0x010E, 0x010F, 0x0110, 0x0131, 0x013B, 0x8298)
"""DocumentName, ImageDescription, Make, Model, Software, Artist and Copyright."""
_USER_COMMENT, _EXIF_BLOCK = 0x9286, 0x8769


def _exif(name: str) -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    for tag in _EXIF_TEXTS:
        exif[tag] = name
    exif[0x9C9D] = name.encode("utf-16-le")  # XPAuthor
    exif.get_ifd(_EXIF_BLOCK)[_USER_COMMENT] = f"ASCII\0\0\0{name}".encode()
    return exif


def _xmp(name: str) -> bytes:
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><dc:creator>{name}</dc:creator></x:xmpmeta>'.encode()


def write_png(path: Path, grey_HW: NDArray[np.uint8], name: str) -> None:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", name)
    texts.add_text("Comment", name, zip=True)
    texts.add_itxt("XML:com.adobe.xmp", _xmp(name).decode())
    PIL.Image.fromarray(grey_HW).save(path, pnginfo=texts, exif=_exif(name))


def write_jpeg(path: Path, grey_HW: NDArray[np.uint8], name: str) -> None:
    PIL.Image.fromarray(grey_HW).save(path, exif=_exif(name), comment=name.encode(), xmp=_xmp(name), quality=95)


def write_tiff(path: Path, grey_HW: NDArray[np.uint8], name: str) -> None:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    for tag in (*_EXIF_TEXTS, 0x013C):
        tags[tag] = name
    tags[700] = _xmp(name)
    PIL.Image.fromarray(grey_HW).save(path, tiffinfo=tags)


def write_dicom(path: Path, grey_HW: NDArray[np.uint8], name: str) -> None:
    dataset = pydicom.dcmread(str(get_testdata_file("MR_small.dcm", download=False)))
    dataset.Rows, dataset.Columns = grey_HW.shape
    dataset.BitsAllocated = dataset.BitsStored = 8
    dataset.HighBit, dataset.PixelRepresentation = 7, 0
    dataset.add_new("PixelData", "OB", grey_HW.tobytes())
    del dataset.WindowCenter, dataset.WindowWidth
    for tag in (
        "PatientName", "OtherPatientNames", "PatientID", "PatientComments", "ReferringPhysicianName", "OperatorsName",
        "StudyDescription", "SeriesDescription", "ImageComments", "InstitutionName", "StationName", "AccessionNumber",
        "PatientMotherBirthName", "RequestedProcedureDescription", "DerivationDescription", "StudyID",
    ):  # fmt: skip
        setattr(dataset, tag, name)
    inside = Dataset()
    inside.PatientName = inside.CodeMeaning = name
    dataset.RequestAttributesSequence = [inside]
    dataset.private_block(0x0029, name, create=True).add_new(1, "LO", name)
    dataset.add_new(0x60004000, "LT", name)
    dataset.add_new(0x60000022, "LO", name)
    dataset.file_meta.SourceApplicationEntityTitle = name
    stream = io.BytesIO()
    dataset.save_as(stream)
    path.write_bytes(stream.getvalue())


WRITERS: dict[str, Callable[[Path, NDArray[np.uint8], str], None]] = {
    ".png": write_png, ".jpg": write_jpeg, ".tif": write_tiff, ".dcm": write_dicom,
}  # fmt: skip


def write_named(folder: Path, number: int, name: str) -> Path:
    """Writes one of the pictures, each kind in turn, whose file is named after the person too."""
    grey_HW = np.random.default_rng(number).integers(0, 256, (24, 32), dtype=np.uint8)
    suffix = list(WRITERS)[number % len(WRITERS)]
    path = folder / f"{name}_{number}{suffix}"
    WRITERS[suffix](path, grey_HW, name)
    return path
