import contextlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.PngImagePlugin
import pytest

from medtune.data.media.images import KeptPictures, decode_image, image_size, load_image, stroke_px
from medtune.data.types import Box, MediaRef, Size


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels_HWC = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    PIL.Image.fromarray(pixels_HWC).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_rgb_png_is_read_as_it_is(photo: Path) -> None:
    pixels_HWC = decode_image(photo).pixels_HWC
    assert pixels_HWC.dtype == np.uint8
    assert np.array_equal(pixels_HWC, np.asarray(PIL.Image.open(photo)))


def test_exif_orientation_turns_pixels_and_size(tmp_path: Path) -> None:
    picture = PIL.Image.new("RGB", (64, 32))
    picture.paste((255, 255, 255), (0, 0, 16, 16))
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    pixels_HWC = decode_image(tmp_path / "turned.jpg").pixels_HWC
    assert pixels_HWC.shape == (64, 32, 3)
    assert pixels_HWC[4, 28].min() > 240  # orientation 6: the stored upper left is shown upper right
    assert pixels_HWC[4, 4].max() < 15
    assert image_size(tmp_path / "turned.jpg") == Size(32, 64)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _turning_chunks() -> dict[str, bytes]:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    raw = exif.tobytes()
    said = raw.removeprefix(b"Exif\0\0")
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    profile = f"\nexif\n{len(raw):8}\n{raw.hex()}\n".encode()
    return {
        "exif": _chunk(b"eXIf", said),
        "xmp": _chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp),
        "profile": _chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile)),
        "nothing": _chunk(b"tEXt", b"Comment\0upright"),
    }


@pytest.mark.parametrize("told_in", ["exif", "xmp", "profile", "nothing"])
@pytest.mark.parametrize("before", [True, False], ids=["before the pixels", "behind the pixels"])
def test_png_is_measured_without_its_pixels(
    tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch, told_in: str, before: bool
) -> None:
    content, path = photo.read_bytes(), tmp_path / "turned.png"
    place = content.index(b"IDAT" if before else b"IEND") - 4
    path.write_bytes(content[:place] + _turning_chunks()[told_in] + content[place:])
    height, width = decode_image(path).pixels_HWC.shape[:2]
    assert (width, height) == ((60, 40) if told_in == "nothing" else (40, 60))
    monkeypatch.setattr(PIL.PngImagePlugin.PngImageFile, "load_prepare", _no_pixels)
    assert image_size(path) == Size(width, height)


def _no_pixels(picture: PIL.Image.Image) -> None:
    raise AssertionError(f"the pixels of {picture} are decoded")


def test_a_size_is_remembered_until_the_file_changes(
    tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, another = tmp_path / "other.png", io.BytesIO()
    PIL.Image.new("L", (9, 7)).save(another, format="png")
    path.write_bytes(photo.read_bytes())
    assert image_size(path) == Size(60, 40)
    with monkeypatch.context() as patched:
        patched.setattr(PIL.Image, "open", _no_file)
        assert image_size(path) == Size(60, 40)
    about = path.stat()
    path.write_bytes(another.getvalue())
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert image_size(path) == Size(9, 7)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"other\.png: there is no such image"):
        image_size(path)


def test_a_picture_is_decoded_once_until_its_file_changes_or_others_take_its_place(
    tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.png"
    PIL.Image.new("L", (60, 40), 7).save(other)
    pictures = KeptPictures(most_bytes=2 * 60 * 40 * 3)
    first_HWC = pictures.pixels(photo)
    assert np.array_equal(first_HWC, decode_image(photo).pixels_HWC)
    first_HWC[:] = 0  # It is the caller's own.
    assert pictures.pixels(other).max() == 7
    with monkeypatch.context() as patched:
        patched.setattr(PIL.Image, "open", _no_file)
        assert pictures.pixels(photo).max() > 200
        assert pictures.pixels(other).max() == 7
    PIL.Image.new("L", (60, 40), 9).save(other)
    assert pictures.pixels(other).max() == 9
    monkeypatch.setattr(PIL.Image, "open", _no_file)
    with pytest.raises(AssertionError, match="is opened again"):
        pictures.pixels(photo)


def _no_file(*told: object, **named: object) -> None:
    raise AssertionError(f"{told[0]} is opened again")


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bit_grey_is_stretched_from_lowest_to_highest(tmp_path: Path, suffix: str) -> None:
    PIL.Image.fromarray(np.array([[1000, 2000], [3000, 3000]], np.uint16)).save(tmp_path / f"deep.{suffix}")
    assert decode_image(tmp_path / f"deep.{suffix}").pixels_HWC[:, :, 0].tolist() == [[0, 128], [255, 255]]


def test_even_sixteen_bit_image_is_black(tmp_path: Path) -> None:
    PIL.Image.fromarray(np.full((2, 2), 700, np.uint16)).save(tmp_path / "even.png")
    assert not decode_image(tmp_path / "even.png").pixels_HWC.any()


def test_transparent_pixels_lie_over_black(tmp_path: Path) -> None:
    PIL.Image.fromarray(np.array([[[200, 100, 50, 255], [200, 100, 50, 0]]], np.uint8)).save(tmp_path / "alpha.png")
    assert decode_image(tmp_path / "alpha.png").pixels_HWC.tolist() == [[[200, 100, 50], [0, 0, 0]]]


def test_palette_grey_and_bilevel_become_rgb(tmp_path: Path) -> None:
    palette = PIL.Image.new("P", (1, 1), 3)
    palette.putpalette([0] * 9 + [10, 20, 30])
    palette.save(tmp_path / "palette.tif")
    PIL.Image.new("1", (1, 1), 1).save(tmp_path / "bilevel.png")
    PIL.Image.new("L", (1, 1), 77).save(tmp_path / "grey.png")
    assert decode_image(tmp_path / "palette.tif").pixels_HWC.tolist() == [[[10, 20, 30]]]
    assert decode_image(tmp_path / "bilevel.png").pixels_HWC.tolist() == [[[255, 255, 255]]]
    assert decode_image(tmp_path / "grey.png").pixels_HWC.tolist() == [[[77, 77, 77]]]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png: there is no such image"):
        decode_image(tmp_path / "nowhere.png")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.png", b"", "is empty"),
        ("note.png", b"hello, this is text", "this is none"),
        ("half.png", None, "truncated"),
    ],
)
def test_bad_file_is_named_with_its_problem(
    tmp_path: Path, photo: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(photo.read_bytes()[:3000] if content is None else content)
    with pytest.raises(ValueError, match=rf"{name}.*{message}"):
        decode_image(path)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif"])
@pytest.mark.filterwarnings("ignore:.*(Corrupt EXIF|Truncated File)")
def test_a_file_cut_anywhere_gives_pixels_or_a_value_error(tmp_path: Path, photo: Path, suffix: str) -> None:
    whole = tmp_path / f"whole.{suffix}"
    PIL.Image.open(photo).save(whole, **({"compression": "tiff_lzw"} if suffix == "tif" else {}))
    content = whole.read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    for length in range(1, len(content), max(1, len(content) // 150)):
        cut.write_bytes(content[:length])
        with contextlib.suppress(ValueError):
            decode_image(cut)
        with contextlib.suppress(ValueError):
            image_size(cut)


def test_several_pages_are_refused(tmp_path: Path) -> None:
    page = PIL.Image.new("L", (4, 4))
    page.save(tmp_path / "pages.tif", save_all=True, append_images=[page])
    with pytest.raises(ValueError, match="holds several"):
        decode_image(tmp_path / "pages.tif")


def test_decompression_bomb_is_a_clear_error(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="claims more than 200 pixels"):
        decode_image(photo)


def test_box_is_drawn_around_and_hides_nothing_inside(photo: Path) -> None:
    box = Box(20, 10, 40, 30)
    plain_HWC = decode_image(photo).pixels_HWC
    boxed_HWC = load_image(MediaRef(photo, (box,))).pixels_HWC
    changed_HW = (plain_HWC != boxed_HWC).any(axis=2)
    assert not changed_HW[10:30, 20:40].any()
    assert (boxed_HWC[8:10, 18:42] == (255, 0, 0)).all()
    assert (boxed_HWC[30:32, 18:42] == (255, 0, 0)).all()
    assert (boxed_HWC[8:32, 18:20] == (255, 0, 0)).all()
    assert (boxed_HWC[8:32, 40:42] == (255, 0, 0)).all()
    assert not changed_HW[:8].any()
    assert not changed_HW[:, 42:].any()


def test_box_at_the_edge_stays_visible(photo: Path) -> None:
    boxed_HWC = load_image(MediaRef(photo, (Box(0, 0, 60, 40),))).pixels_HWC
    assert (boxed_HWC[:2] == (255, 0, 0)).all()
    assert (boxed_HWC[:, -2:] == (255, 0, 0)).all()


@pytest.mark.parametrize("box", [Box(5, 5, 5, 9), Box(-1, 0, 4, 4), Box(0, 0, 61, 4), Box(9, 9, 4, 4)])
def test_box_outside_the_image_is_refused(photo: Path, box: Box) -> None:
    with pytest.raises(ValueError, match=r"photo\.png: the box .* 60 x 40"):
        load_image(MediaRef(photo, (box,)))


def test_stroke_grows_with_the_shorter_side() -> None:
    assert [stroke_px(100, 100), stroke_px(2000, 1000), stroke_px(1000, 2000)] == [2, 5, 5]
