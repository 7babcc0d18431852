"""Reads what a PNG file says behind its pixels, such as the way up, without decoding the pixels.

A PNG may say which way up it is in any chunk, also behind the pixels. Pillow finds those only after it has decoded the
whole file: 59 ms for 2,000 x 2,000 pixels, against 0.05 ms for a look at the other chunks.
"""

import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import PIL.Image

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER, _PIXELS = b"IHDR", b"IDAT"
_TOLD_IN = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")
"""The chunks in which Pillow looks for the way up: EXIF, a raw EXIF profile as text, and XMP."""


def exif_of_png(path: Path) -> PIL.Image.Exif:
    """Returns the EXIF facts of a PNG file, those behind its pixels included; a cut file says what it still has.

    Source: PNG specification (third edition), 5.3 Chunk layout; Pillow, PngImagePlugin.PngImageFile.getexif.
    """
    with path.open("rb") as file:
        told = list(_chunks(file))
    if len(told) == 1:
        return PIL.Image.Exif()
    # A file of the same chunks without pixels: what the chunks mean is left to Pillow.
    bare = io.BytesIO(_SIGNATURE + b"".join(_chunk(kind, data) for kind, data in [*told, (_PIXELS, b"")]))
    with PIL.Image.open(bare, formats=("PNG",)) as picture:
        # The method of PngImageFile would decode the pixels first.
        return PIL.Image.Image.getexif(picture)


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    file.seek(len(_SIGNATURE))
    while len(head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        if kind == _HEADER or kind in _TOLD_IN:
            yield kind, file.read(size)
            size = 0
        file.seek(size + 4, os.SEEK_CUR)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", zlib.crc32(kind + data))
