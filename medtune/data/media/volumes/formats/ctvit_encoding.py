"""Reads the encoding of a volume by CT-CHAT's tower from the files of its release: .npz with one array, `arr`.

Shape legend: t, h, w patches along depth, height and width; D feature width.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973, llava/serve/encode_script.py and llava/train/train.py, read for
facts, no code taken (CC-BY-NC-SA). The release's arrays are (1, 24, 24, 24, 512).
"""

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.stored_media import check_bytes

ENCODING_SUFFIX = ".npz"
KEY = "arr"
_AXES = 5
# numpy and zipfile raise any of these for a broken archive.
_BROKEN = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)
_ENCODE_AGAIN = "Save it again as CT-CHAT's encoding script does, or take the file away: the scan is then encoded here."


def read_encoding(path: Path) -> NDArray[np.float32]:
    """Returns the vectors of one encoded volume, (t, h, w, D)."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such encoding. Check the path.")
    check_bytes(path)
    found = _array(path)
    if found.ndim != _AXES or found.shape[0] != 1 or found.size == 0:
        raise ValueError(
            f"{path}: {KEY}: shape {found.shape}, wanted (1, t, h, w, width) of one volume. {_ENCODE_AGAIN}"
        )
    if not np.issubdtype(found.dtype, np.floating):
        raise ValueError(f"{path}: {KEY}: values of type {found.dtype}, wanted floating-point numbers. {_ENCODE_AGAIN}")
    vectors_thwD = np.asarray(found[0], dtype=np.float32)
    if not np.isfinite(vectors_thwD).all():
        raise ValueError(f"{path}: {KEY}: values that are not finite. {_ENCODE_AGAIN}")
    return vectors_thwD


def _array(path: Path) -> NDArray[np.generic]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: not a whole {ENCODING_SUFFIX} file. {_ENCODE_AGAIN}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = archive[KEY] if KEY in archive.files else None
    except _BROKEN as error:
        raise ValueError(
            f"{path}: not a whole {ENCODING_SUFFIX} file ({type(error).__name__}). {_ENCODE_AGAIN}"
        ) from error
    if found is None:
        raise ValueError(f"{path}: no array of the name {KEY}. {_ENCODE_AGAIN}")
    return np.asarray(found)
