"""Holds the readers of pictures against every form in which a file may store the same picture."""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL.Image
import pydicom
import pytest
from numpy.typing import NDArray

from medtune.benchmarks import find_source
from medtune.data.media.images import decode_image, image_size
from medtune.data.media.videos.container import timeline
from medtune.data.media.videos.read import read_video
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.write import prepare
from medtune.data.types import MediaRef, Size
from tests.golden.files import COLLECTED

Order = Literal["<", ">"]
ORDERS: tuple[Order, ...] = ("<", ">")
UNSIGNED, SIGNED, FLOAT = 1, 2, 3
TURNS = {
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.T, 6: lambda a: a.T[:, ::-1], 7: lambda a: a.T[::-1, ::-1], 8: lambda a: a.T[::-1],
}  # fmt: skip
"""How the stored pixels are shown, by TIFF's orientation. Source: TIFF 6.0, section 8, Orientation."""


def tiff(path: Path, stored_HW: NDArray[np.generic], *, photometric: int, turn: int, order: Order) -> None:
    """Writes an uncompressed TIFF of one band by hand, so that no reader's own writer is trusted."""
    format_ = {"u": UNSIGNED, "i": SIGNED, "f": FLOAT}[stored_HW.dtype.kind]
    height, width = stored_HW.shape
    data = stored_HW.astype(stored_HW.dtype.newbyteorder(order)).tobytes()
    bits = 8 * stored_HW.dtype.itemsize
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 274: turn, 277: 1, 278: height, 339: format_}
    tags |= {273: 8, 279: len(data)}
    entries = b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8 + len(data))
    path.write_bytes(head + data + struct.pack(f"{order}H", len(tags)) + entries + struct.pack(f"{order}I", 0))


def forms() -> Iterator[tuple[str, int, int, Order]]:
    """Yields types of grey values, whether 0 is white, orientations and byte orders."""
    for dtype in ("u1", "u2", "u4", "i1", "i2", "i4", "f4"):
        for photometric in (0, 1):
            for turn in TURNS:
                yield from ((dtype, photometric, turn, order) for order in ORDERS)


REFUSED = {
    *((dtype, 0, order) for dtype in ("u4", "i1", "i2", "i4") for order in "<>"), ("u2", 0, ">"), ("u4", 1, ">"),
}  # fmt: skip
"""The forms that Pillow does not know."""


def test_a_tiff_is_read_as_its_tags_say(tmp_path: Path) -> None:
    shown_HW = np.random.default_rng(0).permutation(7 * 12).reshape(7, 12) * 3
    shown_HW[shown_HW == shown_HW.max()] = 255
    for dtype, photometric, turn, order in forms():
        # Values are stretched, or stay as they are where a byte holds them.
        kind = np.dtype(dtype)
        low = -128 if kind == np.int8 else -(2**15) if kind == np.int16 else -(2**31) if kind == np.int32 else 0
        step = {1: 1, 2: 257, 4: 2**24 + 2**16 + 257}[kind.itemsize]
        values_HW = 255 - shown_HW if photometric == 0 else shown_HW
        stored_HW = (low + values_HW * step).astype(kind)
        stored_HW = np.ascontiguousarray(TURNS[{6: 8, 8: 6}.get(turn, turn)](stored_HW))
        path = tmp_path / f"{dtype} {photometric} {turn} {order == '<'}.tif"
        tiff(path, stored_HW, photometric=photometric, turn=turn, order=order)
        if (dtype, photometric, order) in REFUSED:
            with pytest.raises(ValueError, match="this is none"):
                decode_image(path)
            continue
        read_HW = decode_image(path).pixels_HWC[..., 0].astype(int)
        assert read_HW.shape == shown_HW.shape, path.name
        assert np.abs(read_HW - shown_HW).max() <= 1, path.name
        assert image_size(path) == Size(12, 7), path.name


@pytest.mark.parametrize("name", ["14_exif6.tif", "15_mpo.jpg", "17_miniswhite16.tif", "20_uint32.tif"])
def test_a_collected_picture_shows_the_truth(name: str) -> None:
    truth_HW = np.load(COLLECTED / "images" / "truth.npy").astype(int)
    read_HW = decode_image(COLLECTED / "images" / name).pixels_HWC[..., 0].astype(int)
    assert np.abs(read_HW - truth_HW).max() <= (2 if name.endswith("jpg") else 0)
    assert image_size(COLLECTED / "images" / name) == Size(160, 96)


def test_the_pictures_behind_a_first_one_are_counted(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    shutil.copy(COLLECTED / "images" / "15_mpo.jpg", tmp_path / "raw" / "a.jpg")
    (tmp_path / "raw" / "data.csv").write_text("image,question,answer,split\na.jpg,What?,a cyst,test\n")
    made = prepare(find_source("table"), benchmark="vqa", root=tmp_path / "raw" / "data.csv", out=tmp_path / "out")
    assert any(
        note.startswith("files with several pictures (MPO, as phones write them): 1;") for note in made.manifest.notes
    )


def test_a_picture_that_is_all_in_its_transparency_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"29_black.*laid over black, the picture is of one colour.*transparency"):
        decode_image(COLLECTED / "images" / "29_black_on_transparent.png")
    PIL.Image.new("RGBA", (4, 4), (0, 0, 0, 255)).save(tmp_path / "black.png")
    assert not decode_image(tmp_path / "black.png").pixels_HWC.any()


def dicom(path: Path, *, implicit: bool = False, **tags: Any) -> Path:
    """Writes the plain file of the cases with other tags."""
    dataset = pydicom.dcmread(COLLECTED / "dicoms" / "00_plain.dcm")
    for name, value in tags.items():
        if name.startswith("PixelPadding"):
            dataset.add_new(name, "US", value)
        else:
            setattr(dataset, name, value)
    if implicit:
        dataset.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    dataset.save_as(path, implicit_vr=implicit, little_endian=True)
    return path


@pytest.mark.parametrize("implicit", [True, False])
@pytest.mark.parametrize("interpretation", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(("padding", "limit"), [(4095, None), (0, None), (4000, 4095), (4095, 4000)])
def test_padding_takes_no_part_in_the_stretch(
    tmp_path: Path, implicit: bool, interpretation: str, padding: int, limit: int | None
) -> None:
    inside_HW = np.arange(96 * 160, dtype=np.uint16).reshape(96, 160) % 500 + 1000
    stored_HW = inside_HW.copy()
    stored_HW[:10] = padding
    more = {} if limit is None else {"PixelPaddingRangeLimit": limit}
    tags = {"PixelPaddingValue": padding, "PhotometricInterpretation": interpretation, "PixelData": stored_HW.tobytes()}
    read_HW = decode_image(dicom(tmp_path / "padded.dcm", implicit=implicit, **{**tags, **more})).pixels_HWC[..., 0]
    wanted_HW = np.rint((inside_HW - 1000.0) / 499 * 255)
    wanted_HW = 255 - wanted_HW if interpretation == "MONOCHROME1" else wanted_HW
    assert np.abs(read_HW[10:] - wanted_HW[10:]).max() <= 1
    assert not read_HW[:10].any()


def test_padding_of_the_collected_file_leaves_its_grey_levels() -> None:
    assert len(np.unique(decode_image(COLLECTED / "dicoms" / "02_padding_high.dcm").pixels_HWC)) > 150


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"WindowCenter": 500, "WindowWidth": 0}, r"WindowWidth \(0028,1051\) is 0, wanted at least 1"),
        ({"WindowCenter": 500, "WindowWidth": -3}, r"WindowWidth \(0028,1051\) is -3"),
        ({"BitsAllocated": 13}, r"BitsAllocated \(0028,0100\) is 13"),
        ({"BitsStored": 17}, r"BitsStored \(0028,0101\) is 17, wanted 1 to BitsAllocated \(16\)"),
        ({"Rows": 0}, r"Rows \(0028,0010\) and Columns \(0028,0011\) are 0 and 160"),
    ],
)
def test_a_tag_without_sense_is_named(tmp_path: Path, tags: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"odd\.dcm: {message}"):
        decode_image(dicom(tmp_path / "odd.dcm", **tags))


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_film_is_shown_upright(tmp_path: Path, degrees: int) -> None:
    import av

    path = tmp_path / "turned.mp4"
    with av.open(str(COLLECTED / "videos" / "cfr.mp4")) as given, av.open(str(path), "w") as made:
        stream = made.add_stream_from_template(given.streams.video[0])
        stream.set_display_rotation(degrees)
        for packet in given.demux(video=0):
            if packet.size:
                packet.stream = stream
                made.mux(packet)
    plain, turned = (read_video(MediaRef(file, kind="video")) for file in (COLLECTED / "videos" / "cfr.mp4", path))
    # FFmpeg's rotation goes against the clock.
    assert np.array_equal(np.rot90(plain.frames_THWC, degrees // 90, (1, 2)), turned.frames_THWC)
    assert timeline(path).size == Size(*turned.frames_THWC.shape[2:0:-1])


def test_the_collected_film_is_upright() -> None:
    plain, turned = (
        read_video(MediaRef(COLLECTED / "videos" / f"{name}.mp4", kind="video")) for name in ("cfr", "rot90")
    )
    assert np.array_equal(np.rot90(plain.frames_THWC, -1, (1, 2)), turned.frames_THWC)


def test_a_cifti_file_is_named(tmp_path: Path) -> None:
    from nibabel import cifti2

    scalars = cifti2.ScalarAxis(["thickness"])
    surface = cifti2.BrainModelAxis.from_surface(np.arange(5), 10, name="CortexLeft")
    image = cifti2.Cifti2Image(np.zeros((1, 5), np.float32), (scalars, surface))
    image.to_filename(tmp_path / "surface.nii")
    with pytest.raises(ValueError, match=r"surface\.nii: a Cifti2 file, which has no grid of voxels"):
        read_volume(tmp_path / "surface.nii")
