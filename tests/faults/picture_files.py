"""Yields broken pictures and series: PNG, JPEG, TIFF and DICOM with flipped bits, odd headers, or without their end."""

import io
import random
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pydicom
from pydicom.data import get_testdata_file
from pydicom.encaps import encapsulate
from pydicom.uid import UID, AllTransferSyntaxes

from medtune.data.media.dicom import decode_cine
from medtune.data.media.images import decode_image, image_size
from medtune.data.media.volumes.read import read_volume
from tests.data.media.volumes.synthetic_volumes import SECRET, scan, series
from tests.faults.harness import PLANTED, Broken
from tests.trainer.own_data.named_pictures import WRITERS

_LEAST_CUT = 200
"""Bytes of an end without which no picture is whole; what lies behind the pixels may be missing."""
PACKED = (
    "JPEGLSNearLossless_08.dcm", "JPEGLSNearLossless_16.dcm", "SC_rgb_jpeg_gdcm.dcm", "SC_rgb_small_odd_jpeg.dcm",
    "JPEG-lossy.dcm", "MR_small_RLE.dcm", "MR_small_jp2klossless.dcm", "SC_rgb_jls_lossy_sample.dcm",
)  # fmt: skip
"""Files of pydicom, one for each decoder."""
LAYOUT = (
    "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel",
    "NumberOfFrames", "PlanarConfiguration", "PixelPaddingValue", "WindowCenter", "WindowWidth", "RescaleSlope",
    "RescaleIntercept", "PhotometricInterpretation", "FrameTime", "VOILUTFunction",
)  # fmt: skip
NUMBERS = (0, 1, 3, 7, 12, 255, 32767, 65535)
TEXTS = (
    "", "0", "-1", "NaN", "inf", "1e400", "1e-400", "1\\2\\3", PLANTED, "9" * 16, "-", "RGB", "PALETTE COLOR",
    "YBR_FULL",
)  # fmt: skip


def picture_files(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields pictures that are decoded, and whose size is read from the header."""
    grey_HW = np.random.default_rng(0).integers(0, 256, (40, 48), dtype=np.uint8)
    wholes = {}
    for suffix, write in WRITERS.items():
        write(path := folder / f"whole{suffix}", grey_HW, PLANTED)
        wholes[suffix] = path.read_bytes()
    packed = [Path(str(get_testdata_file(name, download=False))).read_bytes() for name in PACKED]
    while True:
        change, suffix = draw.choice(list(CHANGES)), draw.choice(list(wholes))
        content, is_certain = CHANGES[change](draw, wholes[suffix])
        if (kind := draw.random()) < 0.3:
            suffix, change = ".dcm", "odd tags"
            content, is_certain = _odd_tags(draw, wholes[".dcm"], LAYOUT), False
        elif kind < 0.6:
            number = draw.randrange(len(PACKED))
            suffix, change, is_certain = ".dcm", f"{change} of {PACKED[number]}", False
            content = _in_pixels(draw, packed[number])
        path = folder / f"picture_{draw.getrandbits(32):08x}{suffix}"
        path.write_bytes(content)

        def decode(path: Path = path) -> None:
            assert decode_image(path).pixels_HWC.ndim == 3

        def size(path: Path = path) -> None:
            image_size(path)

        def cine(path: Path = path) -> None:
            decode_cine(path)

        yield Broken(f"{change} in {path.name}", decode, path, is_certain)
        yield Broken(f"the size, {change} in {path.name}", size, path)
        if suffix == ".dcm":
            yield Broken(f"a cine, {change} in {path.name}", cine, path)


def _in_pixels(draw: random.Random, whole: bytes) -> bytes:
    """Returns a DICOM file whose compressed pixels are damaged and whose header is as it was."""
    begin = whole.rindex(b"\xe0\x7f\x10\x00")
    content, _ = draw.choice([*CHANGES.values()])(draw, whole[begin + 28 :])
    return whole[: begin + 28] + content


def _flipped(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(content), False


def _head(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content = bytearray(whole)
    for _ in range(draw.randrange(1, 4)):
        content[draw.randrange(min(400, len(content)))] = draw.choice((0, 1, 127, 128, 255))
    return bytes(content), False


def _number(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    content, place = bytearray(whole), draw.randrange(len(whole) - 8)
    struct.pack_into(draw.choice(("<I", ">I")), content, place, draw.choice((0, 1, 2**16, 2**31 - 1, 2**32 - 1)))
    return bytes(content), False


def _cut(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    return whole[: draw.randrange(max(1, len(whole) - _LEAST_CUT))], True


def _repeated(draw: random.Random, whole: bytes) -> tuple[bytes, bool]:
    place, length = draw.randrange(len(whole)), draw.randrange(1, 2000)
    return whole[:place] + whole[place : place + length] + whole[place:], False


CHANGES: Mapping[str, Callable[[random.Random, bytes], tuple[bytes, bool]]] = {
    "flipped bits": _flipped, "odd bytes of the head": _head, "an odd number": _number, "a cut": _cut,
    "a part twice": _repeated,
}  # fmt: skip


def series_folders(draw: random.Random, folder: Path) -> Iterator[Broken]:
    """Yields folders with a series of four slices, of which one or all have odd tags or other damage."""
    whole = series(folder / "whole", scan((6, 5, 4)))
    slices = {path.name: path.read_bytes().replace(SECRET.encode(), PLANTED[: len(SECRET)].encode())
              for path in whole.iterdir()}  # fmt: skip
    while True:
        place = folder / f"series_{draw.getrandbits(32):08x}"
        place.mkdir()
        change = draw.choice(("odd tags", "odd tags", "odd tags", *CHANGES))
        changed = draw.choice(([*slices], [draw.choice([*slices])]))
        for name, content in slices.items():
            if name in changed:
                content = (
                    _odd_tags(draw, content, SERIES) if change == "odd tags" else CHANGES[change](draw, content)[0]
                )
            (place / name).write_bytes(content)

        def read(place: Path = place) -> None:
            volume = read_volume(place)
            assert volume.hu_IJK.ndim == 3
            assert np.isfinite(volume.hu_IJK).all()

        yield Broken(f"{change} in {len(changed)} slices of {place.name}", read, place)
        shutil.rmtree(place)


SERIES = (*LAYOUT, "ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "Modality", "SeriesInstanceUID")


def _odd_tags(draw: random.Random, whole: bytes, names: Sequence[str]) -> bytes:
    """Returns a DICOM file of which tags have odd values, or whose pixels are said to be in another encoding."""
    dataset = pydicom.dcmread(io.BytesIO(whole))
    for name in draw.sample(names, draw.choice((1, 1, 2, 3))):
        tag = pydicom.tag.Tag(name)
        if draw.random() < 0.2:
            dataset.pop(tag, None)
            continue
        kind = pydicom.datadict.dictionary_VR(tag)
        if kind.startswith("US"):
            dataset[tag] = pydicom.DataElement(tag, "US", draw.choice(NUMBERS))
        else:
            # Raw bytes, as files have them that no library would write.
            text = draw.choice(TEXTS).encode()
            raw = pydicom.dataelem.RawDataElement(tag, kind, len(text), text + b" " * (len(text) % 2), 0, False, True)
            dataset._dict[tag] = raw
    if draw.random() < 0.3:
        dataset.file_meta.TransferSyntaxUID = UID(draw.choice([str(each) for each in AllTransferSyntaxes]))
        if dataset.file_meta.TransferSyntaxUID.is_compressed:
            frames = [draw.randbytes(draw.randrange(1, 300)) for _ in range(draw.randrange(1, 3))]
            dataset.PixelData = encapsulate(frames if draw.random() < 0.7 else [dataset.PixelData])
            dataset["PixelData"].is_undefined_length = True
    stream = io.BytesIO()
    syntax = dataset.file_meta.TransferSyntaxUID
    pydicom.dcmwrite(
        stream, dataset, implicit_vr=syntax.is_implicit_VR, little_endian=syntax.is_little_endian, force_encoding=True
    )
    return stream.getvalue()
