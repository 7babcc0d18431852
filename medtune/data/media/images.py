"""Decodes image files (PNG, JPEG, TIFF, single-frame DICOM) into RGB pixels and draws red boxes on them.

Shapes: H height, W width, C channels.
"""

import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL import ImageOps

from medtune.data.media import dicom
from medtune.data.media.png_exif import exif_of_png
from medtune.data.media.stored_media import check_pixels
from medtune.data.media.volumes.formats.other_formats import other_format
from medtune.data.types import Box, Image, MediaRef, Size

FORMATS = ("PNG", "JPEG", "TIFF")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".dcm", ".dicom")
_PICTURE_WITH_OTHERS = "MPO"
"""What phones and cameras write into files called .jpg: a picture, and smaller or other views of it behind."""
_GIF = b"GIF8"
_JPEG_HEAD_BYTES = 2**16
RED = (255, 0, 0)
STROKE_SHARE = 1 / 200
MIN_STROKE_PX = 2

# Pillow raises any of these for a broken file, depending on the format and on the place of the damage.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, struct.error, zlib.error)
_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)
_REMEMBERED = 2**17
"""How many sizes a process remembers; about 60 MB."""
_KEPT_BYTES = 2**25
"""The decoded pictures that a process keeps, as 200 of 224 x 224 pixels (our own choice)."""
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_UNSIGNED, _SIGNED = 1, 2


def decode_image(path: Path) -> Image:
    """Returns the image in a file as RGB uint8.

    - The EXIF orientation is applied.
    - Grey becomes three equal channels, palettes are resolved, and colours of 16 bits keep their high byte.
    - Transparent pixels are laid over black, the background of ultrasound.
    - Grey values of more than 8 bits are stretched: the lowest becomes 0, the highest 255; an even image becomes 0.
    - TIFF's own tags say whether grey values are signed, and whether 0 is white. Of an MPO file the first picture
      counts.
    - DICOM is decoded by `medtune.data.media.dicom`.
    """
    if _is_dicom(path):
        return Image(dicom.decode_dicom(path))
    with _open(path) as picture:
        if getattr(picture, "n_frames", 1) > 1 and picture.format != _PICTURE_WITH_OTHERS:
            raise ValueError(f"{path}: wanted one picture, the file holds several. Export the one that you need.")
        stored = _stored_as(picture)
        picture.load()
        upright = ImageOps.exif_transpose(picture)
        return Image(_to_rgb(upright, path, stored))


def holds_others(path: Path) -> bool:
    """Returns whether a file is a JPEG with other pictures behind the first, which alone `decode_image` returns."""
    with path.open("rb") as file:
        head = file.read(_JPEG_HEAD_BYTES)
    return head.startswith(b"\xff\xd8") and b"MPF\0" in head


def image_size(path: Path) -> Size:
    """Returns the size of the upright image in a file, read from its header alone.

    Sizes are remembered as long as the process lasts, and read again where a file has changed.
    """
    return _size(*_version(path))


def _version(path: Path) -> tuple[Path, int, int]:
    try:
        about = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(_missing(path)) from None
    return path, about.st_mtime_ns, about.st_size


@lru_cache(maxsize=_REMEMBERED)
def _size(path: Path, changed_ns: int, num_bytes: int) -> Size:
    if _is_dicom(path):
        return Size(*dicom.dicom_size(path))
    with _open(path) as picture:
        width, height = picture.size
        if picture.format == "TIFF":  # Pillow has turned its size.
            return Size(width, height)
        exif = exif_of_png(path) if picture.format == "PNG" else picture.getexif()
    return Size(height, width) if exif.get(_ORIENTATION) in _SIDEWAYS else Size(width, height)


class KeptPictures:
    """Decodes pictures, and keeps those that were asked for last: validations and audits ask again and again."""

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[tuple[Path, int, int], NDArray[np.uint8]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def pixels(self, path: Path) -> NDArray[np.uint8]:
        """Returns the pixels of the file as it is now, in an array of the caller's own."""
        version = _version(path)
        with self._lock:
            kept_HWC = self._take_out(version)
        if kept_HWC is None:
            kept_HWC = decode_image(path).pixels_HWC
            check_pixels(path, kept_HWC)
        with self._lock:
            self._take_out(version)
            self._kept[version] = kept_HWC
            self._bytes += kept_HWC.nbytes
            while self._bytes > self._most_bytes:
                self._take_out(next(iter(self._kept)))
        return kept_HWC.copy()

    def _take_out(self, version: tuple[Path, int, int]) -> NDArray[np.uint8] | None:
        taken_HWC = self._kept.pop(version, None)
        self._bytes -= 0 if taken_HWC is None else taken_HWC.nbytes
        return taken_HWC


_pictures = KeptPictures()


def load_image(ref: MediaRef) -> Image:
    """Returns the image that a reference names, with its red boxes drawn."""
    pixels_HWC = _pictures.pixels(ref.path)
    for box in ref.boxes:
        try:
            draw_box(pixels_HWC, box)
        except ValueError as error:
            raise ValueError(f"{ref.path}: {error}") from error
    return Image(pixels_HWC)


def stroke_px(width: int, height: int) -> int:
    """Returns the line width of a drawn box: 1/200 of the image's shorter side, at least 2 pixels (our own choice).

    >>> stroke_px(1000, 800), stroke_px(64, 64)
    (4, 2)
    """
    return max(MIN_STROKE_PX, round(min(width, height) * STROKE_SHARE))


def check_box(box: Box, size: Size) -> None:
    """Checks that a box is not empty and lies inside of its image."""
    if not (0 <= box.x0 < box.x1 <= size.width and 0 <= box.y0 < box.y1 <= size.height):
        raise ValueError(
            f"the box {tuple(box)} does not lie in the image of {size.width} x {size.height} pixels. "
            "Boxes are x0, y0, x1, y1 in pixels, x1 and y1 outside."
        )


def draw_box(pixels_HWC: NDArray[np.uint8], box: Box) -> None:
    """Draws a red rectangle on the pixels, around the box so that it hides nothing inside.

    At the edge of the image, where there is no room around the box, the line moves inside.
    """
    height, width = pixels_HWC.shape[:2]
    check_box(box, Size(width, height))
    stroke = stroke_px(width, height)
    x0, y0 = max(0, box.x0 - stroke), max(0, box.y0 - stroke)
    x1, y1 = min(width, box.x1 + stroke), min(height, box.y1 + stroke)
    pixels_HWC[y0 : y0 + stroke, x0:x1] = RED
    pixels_HWC[max(y0, y1 - stroke) : y1, x0:x1] = RED
    pixels_HWC[y0:y1, x0 : x0 + stroke] = RED
    pixels_HWC[y0:y1, max(x0, x1 - stroke) : x1] = RED


def _is_dicom(path: Path) -> bool:
    try:
        found = dicom.is_dicom(path)
    except FileNotFoundError:
        raise FileNotFoundError(_missing(path)) from None
    except IsADirectoryError:
        raise ValueError(f"{path}: wanted an image, this is a folder.") from None
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty. Copy or download it again.")
    return found


@contextmanager
def _open(path: Path) -> Iterator[PIL.Image.Image]:
    # Of a file that it is given by name, Pillow maps the pixels of a plain TIFF before it turns them.
    file = path.open("rb")
    try:
        picture = PIL.Image.open(file, formats=FORMATS)
    except PIL.Image.DecompressionBombError:
        raise ValueError(_too_large(path)) from None
    except PIL.UnidentifiedImageError:
        file.seek(0)
        if file.read(4) == _GIF:
            raise ValueError(
                f"{path}: this is a GIF. Save a still picture as PNG, or call the column of a moving one video."
            ) from None
        if (other := other_format(path)) is not None:
            raise ValueError(f"{path}: {other}, and call its column volume.") from None
        raise ValueError(
            f"{path}: wanted a PNG, JPEG, TIFF or DICOM image, this is none. "
            "Convert it (a DICOM file must start with the 128 byte preamble and DICM)."
        ) from None
    except _BROKEN as error:
        raise ValueError(_broken(path, error)) from error
    with file, picture:
        try:
            yield picture
        except PIL.Image.DecompressionBombError:
            raise ValueError(_too_large(path)) from None
        except _BROKEN as error:
            if isinstance(error, ValueError) and str(path) in str(error):
                raise
            raise ValueError(_broken(path, error)) from error


class _StoredAs(NamedTuple):
    """What TIFF's tags say of grey values and Pillow leaves out: that another type was meant, and that 0 is white."""

    dtype: str | None = None
    is_white_0: bool = False


def _stored_as(picture: PIL.Image.Image) -> _StoredAs:
    tags = getattr(picture, "tag_v2", {}) if picture.format == "TIFF" else {}
    bits, format_ = (np.atleast_1d(tags.get(tag, 1)) for tag in (_BITS, _SAMPLE_FORMAT))
    meant = {("I", 32, _UNSIGNED): "uint32", ("L", 8, _SIGNED): "int8"}.get(
        (picture.mode, int(bits[0]), int(format_[0]))
    )
    # Pillow itself inverts values of 8 bits and fewer.
    return _StoredAs(meant, is_white_0=tags.get(_PHOTOMETRIC) == 0 and picture.mode.startswith(("I", "F")))


def _to_rgb(picture: PIL.Image.Image, path: Path, stored: _StoredAs) -> NDArray[np.uint8]:
    if picture.mode.startswith(("I", "F")) or stored.dtype is not None:
        grey_HW = np.asarray(picture)
        grey_HW = (grey_HW if stored.dtype is None else grey_HW.view(stored.dtype)).astype(np.float64)
        grey_HW = -grey_HW if stored.is_white_0 else grey_HW
        if not np.isfinite(grey_HW).all():
            raise ValueError(f"{path}: some grey values are not finite numbers. Save it as 8 or 16 bit integers.")
        return np.repeat(dicom.stretch(grey_HW)[:, :, None], 3, axis=2)
    if picture.has_transparency_data:
        coloured = picture.convert("RGBA")
        black = PIL.Image.new("RGBA", coloured.size, (0, 0, 0, 255))
        picture = PIL.Image.alpha_composite(black, coloured)
        if _is_flat(picture) and not _is_flat(coloured.getchannel("A")):
            raise ValueError(
                f"{path}: laid over black, the picture is {'all black' if not picture.getbbox() else 'of one colour'}: "
                "what it shows is in its transparency. Lay it over white and save it without transparency."
            )
    return np.array(picture.convert("RGB"))


def _is_flat(picture: PIL.Image.Image) -> bool:
    return all(low == high for low, high in np.reshape(picture.getextrema(), (-1, 2)))


def _missing(path: Path) -> str:
    return f"{path}: there is no such image. Check the folder that you gave."


def _broken(path: Path, error: BaseException) -> str:
    return f"{path}: the image is truncated or damaged ({type(error).__name__}). Copy or download it again."


def _too_large(path: Path) -> str:
    return f"{path}: the image claims more than {2 * (PIL.Image.MAX_IMAGE_PIXELS or 0):,} pixels. Scale it down first."
