"""Writes and reads volumes in medtune's own file format: voxels, spacing and orientation, and nothing else."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from medtune.data.files import unique_mark
from medtune.data.json_text import json_value
from medtune.data.media.volumes.geometry import Grid
from medtune.data.types import Volume

STORED_SUFFIX = ".volume.safetensors"
"""The ending of the names of stored volumes."""
_KEY = "volume"
AGAIN = "Delete this file; it is made again from the source."
PARTIAL = ".partial"
"""The ending of the names of files that are being written; a process that was killed leaves one behind."""
_TYPES = {"int16": "I16", "int32": "I32", "int64": "I64", "float32": "F32"}


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
