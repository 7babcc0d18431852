"""Tests DICOM pixels that archives send as JPEG Lossless, JPEG-LS and HTJ2K, on files of pydicom, GDCM and OpenJPH."""

import base64
import hashlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import SimpleITK
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import HTJ2KLossless

from medtune.data.media.compressed_dicom import stored_values
from medtune.data.media.dicom import decode_cine
from medtune.data.media.images import decode_image
from medtune.data.media.volumes.read import read_volume
from tests.data.media.volumes.synthetic_volumes import scan, series

STORED = {
    "JPEGLSNearLossless_08.dcm": "9eb46aa86c342094",
    "JPEGLSNearLossless_16.dcm": "f929318278115ce9",
    "SC_rgb_jls_lossy_line.dcm": "bd5344c0a46bc6c0",
    "SC_rgb_jls_lossy_sample.dcm": "bd5344c0a46bc6c0",
    "SC_rgb_jpeg_gdcm.dcm": "169e619557b12114",
}
"""The first digits of SHA-256 of the stored values, as pyjpegls 1.5.1 and pylibjpeg-libjpeg 2.5.0 decode them."""


def _file(name: str) -> Path:
    path = get_testdata_file(name, download=False)
    assert path is not None
    return Path(str(path))


@pytest.mark.parametrize("name", STORED)
def test_stored_values_are_those_of_other_decoders(name: str) -> None:
    dataset = pydicom.dcmread(_file(name))
    assert hashlib.sha256(stored_values(dataset).tobytes()).hexdigest()[:16] == STORED[name]


def test_a_compressed_picture_is_that_of_the_plain_file(capfd: pytest.CaptureFixture[str]) -> None:
    for packed, plain in (
        ("MR_small_jpeg_ls_lossless.dcm", "MR_small.dcm"),
        ("SC_rgb_jpeg_gdcm.dcm", "SC_rgb_rle.dcm"),
    ):
        np.testing.assert_array_equal(
            decode_image(_file(packed)).pixels_HWC, decode_image(_file(plain)).pixels_HWC, err_msg=packed
        )
    assert decode_image(_file("JPEG-lossy.dcm")).pixels_HWC.shape == (1024, 256, 3)
    assert capfd.readouterr() == ("", "")


HTJ2K_GREY = (
    "|4;u>04YEK0000C0000800000000000000C000080000000000009pH0sl|{2mk^A000XAQUDA90ssL31q1{@0smY86Cj9?kdTm&kdTm&kdTmw"
    "h=~7W02crOPjF>!N>E53R%LP^FfKASE;BCwkN^q*00000X#fHLlfVEbUFrn~bN~Rr01|*y0f%$|zyK1!026@u07rBHunMaH!ZZND024p}6+l?*"
    "fQxhhL?w!-02sh`Rsg^NDj)zA;Kms9+HeAO09IPDV#SJ;;2`!w0qnQ{|Je"
)
"""12 x 8 values 2000 + 300 y + 20 x of 16 bits, as OpenJPH 0.2 (imagecodecs 2026.3.6) encodes them without loss."""


def _htj2k(path: Path, frame: bytes) -> Path:
    dataset = pydicom.dcmread(_file("MR_small.dcm"))
    dataset.Rows, dataset.Columns, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 8, 12, 16, 15, 0
    dataset.PixelData = encapsulate([frame])
    dataset["PixelData"].is_undefined_length = True
    dataset.file_meta.TransferSyntaxUID = HTJ2KLossless
    for name in ("WindowCenter", "WindowWidth", "PixelPaddingValue"):
        if name in dataset:
            del dataset[name]
    dataset.save_as(path)
    return path


def test_htj2k(tmp_path: Path) -> None:
    _htj2k(tmp_path / "htj2k.dcm", base64.b85decode(HTJ2K_GREY))
    y, x = np.mgrid[:8, :12]
    wanted = 2000 + 300 * y + 20 * x
    np.testing.assert_array_equal(stored_values(pydicom.dcmread(tmp_path / "htj2k.dcm")), wanted)
    shown = np.rint((wanted - wanted.min()) / np.ptp(wanted) * 255)
    np.testing.assert_array_equal(decode_image(tmp_path / "htj2k.dcm").pixels_HWC[..., 0], shown)


def _lossless(path: Path, values: NDArray[Any], **tags: Any) -> Path:
    """Writes values as JPEG Lossless with GDCM's own encoder."""
    writer = SimpleITK.ImageFileWriter()
    writer.SetImageIO("GDCMImageIO")
    writer.SetCompressor("JPEG")
    writer.UseCompressionOn()
    writer.SetFileName(str(path))
    writer.Execute(SimpleITK.GetImageFromArray(values))
    dataset = pydicom.dcmread(path)
    assert "JPEG Lossless" in dataset.file_meta.TransferSyntaxUID.name
    for name, value in tags.items():
        setattr(dataset, name, value)
    dataset.save_as(path)
    return path


def test_a_cine_of_jpeg_lossless(tmp_path: Path) -> None:
    frames_THW = np.random.default_rng(0).integers(0, 256, (3, 12, 10), dtype=np.uint8)
    cine = decode_cine(_lossless(tmp_path / "cine.dcm", frames_THW, FrameTime=40))
    np.testing.assert_array_equal(cine.frames_THWC[..., 0], frames_THW)


def test_a_series_of_jpeg_lossless_is_the_volume(tmp_path: Path) -> None:
    plain, packed = series(tmp_path / "plain", scan((8, 6, 4))), series(tmp_path / "packed", scan((8, 6, 4)))
    for path in packed.iterdir():
        dataset = pydicom.dcmread(path)
        stored = _lossless(tmp_path / "slice.dcm", dataset.pixel_array[None])
        other = pydicom.dcmread(stored)
        dataset.PixelData, dataset.file_meta.TransferSyntaxUID = other.PixelData, other.file_meta.TransferSyntaxUID
        dataset["PixelData"].is_undefined_length = True
        dataset.save_as(path)
    np.testing.assert_array_equal(read_volume(packed).hu_IJK, read_volume(plain).hu_IJK)


CUT = product(("MR_small_jpeg_ls_lossless.dcm", "SC_rgb_jpeg_gdcm.dcm", "JPEG2000.dcm"), (0.5, 0.9))


@pytest.mark.parametrize(("name", "share"), CUT)
def test_a_cut_picture_is_damaged_and_not_unknown(tmp_path: Path, name: str, share: float) -> None:
    dataset = pydicom.dcmread(_file(name))
    frame = next(generate_frames(dataset.PixelData, number_of_frames=1))
    dataset.PixelData = encapsulate([frame[: int(len(frame) * share)]])
    dataset.save_as(tmp_path / "cut.dcm")
    with pytest.raises(ValueError, match=r"cut\.dcm: the pixels .* do not decode .*truncated or damaged"):
        decode_image(tmp_path / "cut.dcm")


def test_damage_that_the_decoder_of_htj2k_only_prints_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = base64.b85decode(HTJ2K_GREY)
    for damaged in (whole[:-4], whole[:136] + b"\0" + whole[137:]):
        with pytest.raises(ValueError, match=r"htj2k\.dcm: the pixels .* truncated or damaged"):
            decode_image(_htj2k(tmp_path / "htj2k.dcm", damaged))
    assert capfd.readouterr() == ("", "")
