"""Volumes on disk in the form that is read again and again.

A volume is kept on its own grid as int16 (float32 only where int16 would lose something), or on a model's grid as
float32. File names are hashes of content and transform: nothing of a source's own names survives, and a changed file or
setting is another entry.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from medtune.data.types import Volume
from medtune.data.volumes.read import read_volume
from medtune.data.volumes.transform import VolumeTransform, transform_hash

_KEY = "volume"
_NATIVE = "native"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class VolumeCache:
    """Reads volumes through a folder; each file is decoded, and each transform computed, once.

    Attributes:
        folder: Made where it is missing; several processes may share it.
    """

    folder: Path
    _digests: dict[tuple[Path, int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def native(self, path: Path) -> Volume:
        """Returns the volume of a NIfTI file or DICOM folder on its own grid, to the bit as `read_volume` gives it.

        Raises:
            FileNotFoundError: There is nothing at the path.
            ValueError: The volume is refused, or an entry of the cache is damaged.
        """
        entry = self.folder / f"{self._digest(path)}-{_NATIVE}.safetensors"
        if not entry.is_file():
            write_volume(entry, read_volume(path))
        return stored_volume(entry)

    def prepared(self, path: Path, transform: VolumeTransform) -> NDArray[np.float32]:
        """Returns what `transform` makes of the volume, computed once.

        Raises:
            FileNotFoundError: There is nothing at the path.
            ValueError: The volume is refused, or an entry of the cache is damaged.
        """
        entry = self.folder / f"{self._digest(path)}-{transform_hash(transform)}.safetensors"
        if not entry.is_file():
            _write(entry, transform(self.native(path)), {})
        values, _ = _read(entry)
        return np.asarray(values, dtype=np.float32)

    def _digest(self, path: Path) -> str:
        if not path.exists():
            raise FileNotFoundError(f"no volume at {path}")
        files = sorted(f for f in path.iterdir() if f.is_file()) if path.is_dir() else [path]
        whole = hashlib.sha256()
        for digest in sorted(self._file_digest(file) for file in files):
            whole.update(digest.encode())
        return whole.hexdigest()[:32]

    def _file_digest(self, file: Path) -> str:
        status = file.stat()
        key = (file, status.st_size, status.st_mtime_ns)
        if key not in self._digests:
            digest = hashlib.sha256()
            with file.open("rb") as opened:
                while chunk := opened.read(_CHUNK):
                    digest.update(chunk)
            self._digests[key] = digest.hexdigest()
        return self._digests[key]


def write_volume(path: Path, volume: Volume) -> None:
    """Writes a volume whole or not at all; the voxels are not changed."""
    about = {"spacing_mm": json.dumps(volume.spacing_mm), "orientation": volume.orientation}
    _write(path, volume.hu_IJK, about)


def stored_volume(path: Path) -> Volume:
    """Returns what `write_volume` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or holds no volume.
    """
    values, about = _read(path)
    try:
        i, j, k = json.loads(about["spacing_mm"])
        return Volume(values, (float(i), float(j), float(k)), about["orientation"])  # type: ignore[arg-type]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: states no spacing or orientation. {_AGAIN}") from error


_AGAIN = "Delete this file; it is made again from the source."


def _write(path: Path, values: NDArray[np.generic], about: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file({_KEY: np.ascontiguousarray(values)}, unfinished, metadata=about)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _read(path: Path) -> tuple[NDArray[np.generic], dict[str, str]]:
    if not path.is_file():
        raise FileNotFoundError(f"no stored volume {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            return file.get_tensor(_KEY), dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged ({error}). {_AGAIN}") from error
