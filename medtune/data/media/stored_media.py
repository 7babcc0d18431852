"""Checks a media file of a prepared folder at its first read: its name is the digest of what it holds.

A file that was exchanged for another, or changed, would else be asked about under the hash of the data before.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.data.files import file_digest

_NAME = re.compile(r"([0-9a-f]{64})(?:\.\w+)+")
_FOLDER, _MANIFEST = "media", "manifest.json"
_MOST_REMEMBERED = 2**20
_seen: set[int] = set()


def pixel_digest(pixels_HWC: NDArray[np.uint8]) -> str:
    """Returns the SHA-256 of an image's shape and pixels, hex, which names its copy in a prepared folder."""
    height, width, channels = pixels_HWC.shape
    digest = hashlib.sha256(f"{height}x{width}x{channels}:".encode())
    digest.update(np.ascontiguousarray(pixels_HWC).data)
    return digest.hexdigest()


def check_pixels(path: Path, pixels_HWC: NDArray[np.uint8]) -> None:
    """Refuses an image of a prepared folder whose pixels are not those after which it is named."""
    if (named := _unseen(path)) is not None and named != pixel_digest(pixels_HWC):
        _refuse(path)


def check_bytes(path: Path) -> None:
    """Refuses a film, volume, mask or encoding of a prepared folder whose bytes are not those that name it."""
    if (named := _unseen(path)) is not None and named != file_digest(path):
        _refuse(path)


def _unseen(path: Path) -> str | None:
    """Returns the digest in a file's name; None where it is no file of a prepared folder, or was checked before."""
    found = _NAME.fullmatch(path.name)
    if found is None or path.parent.name != _FOLDER or not _is_prepared(path.parent.parent):
        return None
    about = path.stat()
    mark = hash((str(path), about.st_mtime_ns, about.st_size))
    if mark in _seen:
        return None
    if len(_seen) >= _MOST_REMEMBERED:
        _seen.clear()
    _seen.add(mark)
    return found[1]


@lru_cache(maxsize=64)
def _is_prepared(folder: Path) -> bool:
    return (folder / _MANIFEST).is_file()


def _refuse(path: Path) -> None:
    _seen.clear()
    raise ValueError(
        f"{path}: this file of a prepared folder shows something else than when it was prepared: exchanged, changed or "
        "damaged. Copy the folder again as a whole, or run `medtune prepare` again."
    )
