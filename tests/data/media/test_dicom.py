"""Values here are computed by hand from DICOM PS3.3 C.11.2.1.2.1 (linear window)."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pydicom
import pytest
import SimpleITK
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    MPEG2MPML,
    UID,
    DeflatedExplicitVRLittleEndian,
    EnhancedCTImageStorage,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    RLELossless,
    UltrasoundImageStorage,
    generate_uid,
)

from medtune.data.media.images import decode_image, image_size
from medtune.data.types import Size
from tests.golden.files import COLLECTED

SECRET = "Secret^Patient"


def _dataset(pixels: NDArray[np.generic], interpretation: str, bits: int = 8) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UltrasoundImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.PatientName = SECRET
    dataset.PatientID = SECRET
    dataset.Rows, dataset.Columns = pixels.shape[:2]
    dataset.SamplesPerPixel = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.ndim == 3:
        dataset.PlanarConfiguration = 0
    dataset.PhotometricInterpretation = interpretation
    dataset.BitsAllocated = 8 * pixels.dtype.itemsize
    dataset.BitsStored = bits
    dataset.HighBit = bits - 1
    dataset.PixelRepresentation = 0
    # An odd number of bytes is padded to an even one.
    dataset.PixelData = pixels.tobytes() + b"\0" * (pixels.nbytes % 2)
    return dataset


def _saved(dataset: FileDataset, tmp_path: Path) -> Path:
    path = tmp_path / "image.dcm"
    dataset.save_as(path, enforce_file_format=True)
    return path


def _grey(path: Path) -> list[list[int]]:
    pixels_HWC = decode_image(path).pixels_HWC
    assert (pixels_HWC == pixels_HWC[:, :, :1]).all()
    values: list[list[int]] = pixels_HWC[:, :, 0].tolist()
    return values


def test_eight_bit_grey_is_kept(tmp_path: Path) -> None:
    path = _saved(_dataset(np.array([[3, 90], [200, 7]], np.uint8), "MONOCHROME2"), tmp_path)
    assert _grey(path) == [[3, 90], [200, 7]]
    assert image_size(path) == Size(2, 2)


def test_monochrome1_is_inverted(tmp_path: Path) -> None:
    path = _saved(_dataset(np.array([[0, 255, 55, 200]], np.uint8), "MONOCHROME1"), tmp_path)
    assert _grey(path) == [[255, 0, 200, 55]]


@pytest.mark.parametrize(
    ("stored", "interpretation", "tags", "grey"),
    [
        # y = ((x - 1024.5) / 100 + 0.5) * 255: below 974.5 black, above 1074.5 white.
        ([0, 974, 1024, 1049, 1075, 4000], "MONOCHROME2", {}, [0, 0, 126, 190, 255, 255]),
        # The rescaling comes before the window. Values -1000, 0, 24, 1000: y = (x / 100 + 0.5) * 255.
        ([0, 500, 512, 1000], "MONOCHROME2", {"RescaleSlope": 2, "RescaleIntercept": -1000, "WindowCenter": 0.5},
         [0, 128, 189, 255]),
        ([0, 1024, 4000], "MONOCHROME1", {}, [255, 129, 0]),  # Inverted last.
    ],
)  # fmt: skip
def test_window_follows_the_standard(
    stored: list[int], interpretation: str, tags: dict[str, float], grey: list[int], tmp_path: Path
) -> None:
    dataset = _dataset(np.array([stored], np.uint16), interpretation, bits=12)
    for tag, value in {"WindowCenter": 1025, "WindowWidth": 101, **tags}.items():
        setattr(dataset, tag, value)
    assert _grey(_saved(dataset, tmp_path)) == [grey]


@pytest.mark.parametrize(("centre", "width"), [(40, 400), (3000, 100), (-500, 2)])
@pytest.mark.parametrize("interpretation", ["MONOCHROME1", "MONOCHROME2"])
def test_a_window_beside_all_values_is_named(centre: float, width: float, interpretation: str, tmp_path: Path) -> None:
    dataset = _dataset(np.array([[1000, 1100, 1200, 65535]], np.uint16), interpretation, bits=16)
    dataset.WindowCenter, dataset.WindowWidth, dataset.PixelPaddingValue = centre, width, 65535
    match = (
        r"WindowCenter and WindowWidth \(0028,1050 and 0028,1051\) shows none of .* between 1000 and 1200.*take it out"
    )
    with pytest.raises(ValueError, match=match):
        decode_image(_saved(dataset, tmp_path))
    dataset.PixelData = np.array([[7, 7, 7, 7]], np.uint16).tobytes()
    assert len({*_grey(_saved(dataset, tmp_path))[0]}) == 1


def test_a_table_beside_all_values_is_named(tmp_path: Path) -> None:
    dataset = _dataset(np.array([[10, 11, 12]], np.uint8), "MONOCHROME2")
    table = Dataset()
    table.add_new("LUTDescriptor", "US", [3, 0, 16])
    table.add_new("LUTData", "US", [0, 25700, 65535])
    dataset.VOILUTSequence = [table]
    with pytest.raises(ValueError, match=r"VOILUTSequence \(0028,3010\) shows none"):
        decode_image(_saved(dataset, tmp_path))


def test_wide_grey_without_window_is_stretched(tmp_path: Path) -> None:
    assert _grey(_saved(_dataset(np.array([[100, 200, 300]], np.uint16), "MONOCHROME2", bits=12), tmp_path)) == [
        [0, 128, 255]
    ]


def test_empty_window_is_no_window(tmp_path: Path) -> None:
    dataset = _dataset(np.array([[3, 90]], np.uint8), "MONOCHROME2")
    dataset.WindowCenter = dataset.WindowWidth = None
    dataset.VOILUTSequence = []
    assert _grey(_saved(dataset, tmp_path)) == [[3, 90]]


def test_voi_lookup_table(tmp_path: Path) -> None:
    dataset = _dataset(np.array([[0, 1, 2, 9]], np.uint8), "MONOCHROME2")
    table = Dataset()
    table.add_new("LUTDescriptor", "US", [3, 0, 16])
    table.add_new("LUTData", "US", [0, 25700, 65535])
    dataset.VOILUTSequence = [table]
    assert _grey(_saved(dataset, tmp_path)) == [[0, 100, 255, 255]]


def test_rgb_and_full_ybr(tmp_path: Path) -> None:
    rgb_HWC = np.array([[[255, 0, 0], [10, 20, 30]]], np.uint8)
    assert decode_image(_saved(_dataset(rgb_HWC, "RGB"), tmp_path)).pixels_HWC.tolist() == rgb_HWC.tolist()
    ybr_HWC = np.array([[[76, 85, 255], [128, 128, 128]]], np.uint8)
    decoded_HWC = decode_image(_saved(_dataset(ybr_HWC, "YBR_FULL"), tmp_path)).pixels_HWC.astype(int)
    assert np.abs(decoded_HWC - [[[254, 0, 0], [128, 128, 128]]]).max() <= 1


def test_palette(tmp_path: Path) -> None:
    dataset = _dataset(np.array([[0, 1, 2]], np.uint8), "PALETTE COLOR")
    for colour, values in {"Red": [0, 25700, 65535], "Green": [257, 0, 0], "Blue": [0, 0, 51400]}.items():
        dataset.add_new(f"{colour}PaletteColorLookupTableDescriptor", "US", [3, 0, 16])
        dataset.add_new(f"{colour}PaletteColorLookupTableData", "OW", np.array(values, "<u2").tobytes())
    assert decode_image(_saved(dataset, tmp_path)).pixels_HWC.tolist() == [[[0, 1, 0], [100, 0, 0], [255, 0, 200]]]


def test_real_cine_is_refused_as_multi_frame(shared_real: Path) -> None:
    with pytest.raises(ValueError, match=r"multi-frame \(30 frames\)"):
        decode_image(shared_real / "ultrasound_clips" / "pydicom_us_cine_30f.dcm")


def test_frame_of_the_real_cine_decodes(shared_real: Path, tmp_path: Path) -> None:
    cine = pydicom.dcmread(shared_real / "ultrasound_clips" / "pydicom_us_cine_30f.dcm")
    frame = cine.pixel_array[0]
    dataset = _dataset(frame, "RGB" if frame.ndim == 3 else "MONOCHROME2")
    pixels_HWC = decode_image(_saved(dataset, tmp_path)).pixels_HWC
    assert pixels_HWC.shape[:2] == frame.shape[:2]
    assert pixels_HWC.std() > 1


def test_errors_never_quote_the_header(tmp_path: Path) -> None:
    whole = _saved(_dataset(np.zeros((8, 8), np.uint8), "MONOCHROME2"), tmp_path).read_bytes()
    cut = tmp_path / "cut.dcm"
    for length in range(132, len(whole), 3):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.dcm") as caught:
            decode_image(cut)
        assert "Secret" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.filterwarnings("ignore:Invalid value for VR CS")
def test_damaged_header_value_is_neither_quoted_nor_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = _saved(_dataset(np.zeros((2, 2), np.uint8), SECRET), tmp_path)
    caplog.clear()
    with pytest.raises(ValueError, match="the file has other colours") as caught:
        decode_image(path)
    assert "Secret" not in str(caught.value) + caplog.text


def test_dicom_without_picture_is_refused(tmp_path: Path) -> None:
    dataset = _dataset(np.zeros((2, 2), np.uint8), "MONOCHROME2")
    del dataset.PixelData
    with pytest.raises(ValueError, match="holds no picture"):
        decode_image(_saved(dataset, tmp_path))


def _read_by_itk(path: Path) -> NDArray[np.float64]:
    """Returns the values as ITK's own reader (GDCM) gives them: rescaled, MONOCHROME1 inverted, no window."""
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(path))
    return np.asarray(SimpleITK.GetArrayFromImage(reader.Execute())[0], np.float64)


def _shown(values: NDArray[np.float64], dataset: FileDataset) -> NDArray[np.float64]:
    """Returns what a screen shows of rescaled values, 0 to 255, by the formulas of the standard, not those of pydicom.

    Source: DICOM PS3.3 C.11.2.1.2.1 (LINEAR), C.11.2.1.3.1 (SIGMOID) and C.11.2.1.3.2 (LINEAR_EXACT).
    """
    if "WindowCenter" not in dataset:
        return np.asarray((values - values.min()) / (values.max() - values.min()) * 255)
    centre, width = float(dataset.WindowCenter), float(dataset.WindowWidth)
    function = str(dataset.get("VOILUTFunction", "LINEAR"))
    if function == "SIGMOID":
        return 255 / (1 + np.exp(-4 * (values - centre) / width))
    exact = function == "LINEAR_EXACT"
    shift, span = (0.0, width) if exact else (0.5, width - 1)
    return np.clip((values - (centre - shift)) / span + 0.5, 0, 1) * 255


@pytest.mark.parametrize("function", [None, "LINEAR", "LINEAR_EXACT", "SIGMOID"])
@pytest.mark.parametrize("slope", [None, 2, -0.5])
@pytest.mark.parametrize("interpretation", ["MONOCHROME2", "MONOCHROME1"])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2"])
def test_grey_equals_that_of_another_reader(
    kind: str, interpretation: str, slope: float | None, function: str | None, tmp_path: Path
) -> None:
    """Grey values of every type, scale and window: ITK reads the values, and the standard's formulas show them."""
    is_wide, is_signed = kind[1] == "2", kind[0] == "i"
    bits = 12 if is_wide else 8
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
    pixels = np.random.default_rng(0).integers(low, high, (6, 8)).astype(kind)
    dataset = _dataset(pixels, "MONOCHROME2", bits)
    dataset.PixelRepresentation = int(is_signed)
    if slope is not None:
        dataset.RescaleSlope, dataset.RescaleIntercept = slope, -10
    if function is not None:
        centre = 0.4 * high * (1 if slope is None else slope)
        dataset.WindowCenter, dataset.WindowWidth, dataset.VOILUTFunction = centre, 0.7 * high, function
    dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if is_signed else DeflatedExplicitVRLittleEndian
    values = _read_by_itk(_saved(dataset, tmp_path))
    keeps = function is None and slope is None and kind == "u1"
    wanted = values if keeps else _shown(values, dataset)
    dataset.PhotometricInterpretation = interpretation
    path = _saved(dataset, tmp_path)
    wanted = 255 - wanted if interpretation == "MONOCHROME1" else wanted
    assert np.abs(np.array(_grey(path)) - wanted).max() <= 1


@pytest.mark.parametrize("interpretation", ["RGB", "YBR_FULL", "PALETTE COLOR"])
@pytest.mark.parametrize("planar", [0, 1])
def test_colours_equal_those_of_another_reader(interpretation: str, planar: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    if interpretation == "PALETTE COLOR":
        dataset = _dataset(pixels[..., 0], interpretation)
        for number, colour in enumerate(("Red", "Green", "Blue")):
            values = np.random.default_rng(number).integers(0, 256, 256).astype("<u2") * 257
            dataset.add_new(f"{colour}PaletteColorLookupTableDescriptor", "US", [256, 0, 16])
            dataset.add_new(f"{colour}PaletteColorLookupTableData", "OW", values.tobytes())
    else:
        dataset = _dataset(pixels, interpretation)
        dataset.PlanarConfiguration = planar
        dataset.PixelData = (pixels.transpose(2, 0, 1) if planar else pixels).tobytes()
    path = _saved(dataset, tmp_path)
    theirs = _read_by_itk(path)
    if theirs.max() > 255:
        theirs /= 257
    assert np.abs(decode_image(path).pixels_HWC - theirs).max() <= 1


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ExplicitVRBigEndian])
@pytest.mark.parametrize("entries", ["words", "numbers", "bytes", "narrow words"])
def test_palettes_in_every_order_of_bytes(syntax: UID, entries: str, tmp_path: Path) -> None:
    """Entries of 16 bits, as bytes or as numbers, of 8 bits, and of 8 bits in words."""
    numbers = np.random.default_rng(1).integers(0, 256, (6, 8)).astype(np.uint8)
    dataset = _dataset(numbers, "PALETTE COLOR")
    dataset["PixelData"].VR = "OB"
    dataset.file_meta.TransferSyntaxUID = syntax
    wanted = []
    for seed, colour in enumerate(("Red", "Green", "Blue")):
        levels = np.random.default_rng(seed).integers(0, 256, 256)
        wanted.append(levels[numbers])
        order = ">u2" if syntax == ExplicitVRBigEndian else "<u2"
        data = {
            "words": (levels << 8).astype(order).tobytes(),
            "numbers": (levels << 8).tolist(),
            "bytes": levels.astype("u1").tobytes(),
            "narrow words": levels.astype(order).tobytes(),
        }[entries]
        bits = 8 if entries == "bytes" else 16
        dataset.add_new(f"{colour}PaletteColorLookupTableDescriptor", "US", [256, 0, bits])
        kind = "US" if entries == "numbers" else "OB" if entries == "bytes" else "OW"
        dataset.add_new(f"{colour}PaletteColorLookupTableData", kind, data)
    path = tmp_path / "palette.dcm"
    pydicom.dcmwrite(path, dataset, implicit_vr=False, little_endian=syntax.is_little_endian, force_encoding=True)
    assert np.abs(decode_image(path).pixels_HWC - np.stack(wanted, axis=-1)).max() <= 1


def _encoded(pixels: NDArray[np.generic], syntax: UID, tmp_path: Path) -> Path:
    """Writes pixels by Pillow, pydicom or, in big endian, as they are."""
    is_colour = pixels.ndim == 3
    dataset = _dataset(pixels, "RGB" if is_colour else "MONOCHROME2", 8 * pixels.dtype.itemsize)
    if syntax == RLELossless:
        dataset.compress(RLELossless)
    elif syntax == ExplicitVRBigEndian:
        dataset.PixelData = pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
        dataset["PixelData"].VR = "OW" if pixels.dtype.itemsize == 2 else "OB"
    else:
        stream = io.BytesIO()
        baseline: dict[str, Any] = {"format": "JPEG", "quality": 95, "subsampling": 0}
        how = baseline if syntax == JPEGBaseline8Bit else {"format": "JPEG2000", "no_jp2": True, "mct": 0}
        PIL.Image.fromarray(pixels).save(stream, **how)
        dataset.PixelData = encapsulate([stream.getvalue()])
        dataset["PixelData"].VR = "OB"
        if is_colour and syntax == JPEGBaseline8Bit:
            dataset.PhotometricInterpretation = "YBR_FULL"
    dataset.file_meta.TransferSyntaxUID = syntax
    path = tmp_path / "image.dcm"
    pydicom.dcmwrite(path, dataset, implicit_vr=False, little_endian=syntax != ExplicitVRBigEndian, force_encoding=True)
    return path


@pytest.mark.parametrize("kind", ["u1", "u2", "colour"])
@pytest.mark.parametrize("syntax", [RLELossless, ExplicitVRBigEndian, JPEGBaseline8Bit, JPEG2000Lossless])
def test_every_encoding_equals_that_of_another_reader(kind: str, syntax: UID, tmp_path: Path) -> None:
    if (kind, syntax) == ("u2", JPEGBaseline8Bit):
        return
    y, x = np.mgrid[:16, :24]
    grey = (7 * y + 4 * x) % 256 if kind != "u2" else 2000 + 300 * y + 20 * x
    pixels = np.stack([grey, grey[::-1], grey[:, ::-1]], 2).astype("u1") if kind == "colour" else grey.astype(kind)
    path = _encoded(pixels, syntax, tmp_path)
    theirs = _read_by_itk(path)
    shown = decode_image(path).pixels_HWC
    wanted = (theirs - theirs.min()) / np.ptp(theirs) * 255 if kind == "u2" else theirs
    assert np.abs(np.squeeze(shown if kind == "colour" else shown[..., 0]) - wanted).max() <= 2


def test_an_encoding_that_nothing_decodes_is_named(tmp_path: Path) -> None:
    dataset = _dataset(np.zeros((8, 8), np.uint8), "MONOCHROME2")
    dataset.PixelData = encapsulate([bytes(64)])
    dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OB", True
    dataset.file_meta.TransferSyntaxUID = MPEG2MPML
    with pytest.raises(ValueError, match=r"compressed as MPEG2 Main Profile.*export it as PNG or MP4"):
        decode_image(_saved(dataset, tmp_path))


def test_the_files_that_failed_equal_another_reader() -> None:
    plain, padded = (COLLECTED / "dicoms" / name for name in ("00_plain.dcm", "02_padding_high.dcm"))
    for path in (plain, padded):
        dataset = pydicom.dcmread(path)
        values = _read_by_itk(path)
        seen = values != dataset.get("PixelPaddingValue", -1)
        wanted = np.where(seen, (values - values[seen].min()) / np.ptp(values[seen]) * 255, 0)
        assert np.abs(np.array(_grey(path)) - wanted).max() <= 1


def test_a_cd_directory_and_an_enhanced_scan_say_the_way_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the DICOMDIR of a CD export.*Name these"):
        decode_image(Path(str(get_testdata_file("DICOMDIR", download=False))))
    dataset = _dataset(np.zeros((4, 4), np.uint8), "MONOCHROME2")
    dataset.NumberOfFrames, dataset.PixelData = 2, bytes(32)
    dataset.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    with pytest.raises(ValueError, match=r"multi-frame \(2 frames\)\. It is a scan: convert it \(dcm2niix\)"):
        decode_image(_saved(dataset, tmp_path))
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.zeros((2, 4, 4), np.int16)), str(tmp_path / "ct.nrrd"))
    with pytest.raises(ValueError, match=r"a file of NRRD\. Convert it to NIfTI.*call its column volume"):
        decode_image(tmp_path / "ct.nrrd")
