"""Writes and reads volumes in medtune's own file format: voxels, spacing and orientation, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from medtune.data.media.volumes.geometry import Grid
from medtune.data.types import Volume

STORED_SUFFIX = ".volume.safetensors"
"""The ending of the names of stored volumes."""
_KEY = "volume"


def write_volume(path: Path, volume: Volume) -> None:
    """Writes a volume to a file of medtune's own format, as a whole or not at all; the voxels are not changed."""
    about = {"spacing_mm": json.dumps(volume.spacing_mm), "orientation": volume.orientation}
    write_values(path, volume.hu_IJK, about)


def read_stored_volume(path: Path) -> Volume:
    """Returns a volume that `write_volume` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or holds no volume.
    """
    values, about = read_values(path)
    try:
        i, j, k = json.loads(about["spacing_mm"])
        return Volume(values, (float(i), float(j), float(k)), about["orientation"])  # type: ignore[arg-type]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: states no spacing or orientation. {_AGAIN}") from error


def read_stored_grid(path: Path) -> Grid:
    """Returns the shape and orientation of a volume that `write_volume` wrote, without reading the voxels.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or holds no volume.
    """
    with _opened(path) as file:
        about, (i, j, k) = file.metadata() or {}, file.get_slice(_KEY).get_shape()
    if "orientation" not in about:
        raise ValueError(f"{path}: states no spacing or orientation. {_AGAIN}")
    return Grid((int(i), int(j), int(k)), about["orientation"])


_AGAIN = "Delete this file; it is made again from the source."


def write_values(path: Path, values: NDArray[np.generic], about: dict[str, str]) -> None:
    """Writes the values of a volume to a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file({_KEY: np.ascontiguousarray(values)}, unfinished, metadata=about)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_values(path: Path) -> tuple[NDArray[np.generic], dict[str, str]]:
    """Returns the values of a volume that `write_values` wrote, and the texts beside them.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged.
    """
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
        raise ValueError(f"{path}: damaged ({error}). {_AGAIN}") from error
