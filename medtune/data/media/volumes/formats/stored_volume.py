"""Writes and reads volumes in medtune's own file format: voxels, spacing and orientation, and nothing else.

Reads the encoding of a volume by CT-CHAT's tower from the files of its release: .npz with one array, `arr`.

Shape legend: t, h, w patches along depth, height and width; D feature width.

Source: ibrahimethemhamamci/CT-CHAT@33c9b973, llava/serve/encode_script.py and llava/train/train.py, read for
facts, no code taken (CC-BY-NC-SA). The release's arrays are (1, 24, 24, 24, 512).
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from medtune.data.files import unique_mark
from medtune.data.json_text import json_value
from medtune.data.media.stored_media import check_bytes
from medtune.data.media.volumes.geometry import Grid
from medtune.data.types import Volume

STORED_SUFFIX = ".volume.safetensors"
"""The ending of the names of stored volumes."""
_KEY = "volume"

AGAIN = "Delete this file; it is made again from the source."
PARTIAL = ".partial"
"""The ending of the names of files that are being written; a process that was killed leaves one behind."""
_TYPES = {"int16": "I16", "int32": "I32", "int64": "I64", "float32": "F32"}
ENCODING_SUFFIX = ".npz"
KEY = "arr"
_AXES = 5
# numpy and zipfile raise any of these for a broken archive.
_BROKEN = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)
_ENCODE_AGAIN = "Save it again as CT-CHAT's encoding script does, or take the file away: the scan is then encoded here."


def write_volume(path: Path, volume: Volume) -> None:
    """Writes a volume to a file of medtune's own format, as a whole or not at all; the voxels are not changed."""
    about = {"spacing_mm": json.dumps(volume.spacing_mm), "orientation": volume.orientation}
    write_values(path, volume.hu_IJK, about)


def read_stored_volume(path: Path) -> Volume:
    values, about = read_values(path)
    grid = _grid(values.shape, about, path)
    return Volume(values, grid.spacing_mm, grid.orientation)  # type: ignore[arg-type]


def read_stored_grid(path: Path) -> Grid:
    """Returns the grid of a volume that `write_volume` wrote, without reading the voxels."""
    with _opened(path) as file:
        return _grid(file.get_slice(_KEY).get_shape(), file.metadata() or {}, path)


def _grid(shape: Sequence[int], about: Mapping[str, str], path: Path) -> Grid:
    try:
        i, j, k = (float(length) for length in json_value(about["spacing_mm"]))
        return Grid((int(shape[0]), int(shape[1]), int(shape[2])), (i, j, k), about["orientation"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: states no spacing or orientation. {AGAIN}") from error


def write_values(path: Path, values: NDArray[np.generic], about: Mapping[str, str]) -> None:
    """Writes the values of a volume to a file, with texts beside them, as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{unique_mark()}{PARTIAL}")
    # safetensors' own writer copies the values, hides the disk's errors in their texts, and lets nobody but the user
    # read the file; what it writes is the same.
    tensor = {"dtype": _TYPES[values.dtype.name], "shape": values.shape, "data_offsets": (0, values.nbytes)}
    header = json.dumps({**({"__metadata__": dict(about)} if about else {}), _KEY: tensor}, separators=(",", ":"))
    text = header.encode()
    text += b" " * (-len(text) % 8)
    try:
        with unfinished.open("xb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.write(np.ascontiguousarray(values).data)
            file.flush()
            # A file that has its name is whole, also after a power cut.
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_values(path: Path) -> tuple[NDArray[np.generic], dict[str, str]]:
    """Returns the values of a volume that `write_values` wrote, and the texts beside them."""
    with _opened(path) as file:
        return file.get_tensor(_KEY), dict(file.metadata() or {})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such stored volume. Check the path.")
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged ({error}). {AGAIN}") from error


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
