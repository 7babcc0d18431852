"""Volumes on disk in the form that is read again and again.

A volume is kept on its own grid as int16 (float32 only where int16 would lose something), on a model's grid as float32,
or as the code ids that a frozen tower makes of it. File names are hashes of content, masks, transform and tower:
nothing of a source's own names survives, and a changed file or setting is another entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.formats.stored_volume import read_stored_volume, read_values, write_values, write_volume
from medtune.data.media.volumes.read import load_volume, read_volume
from medtune.data.media.volumes.transforms.transform import VolumeTransform, transform_hash
from medtune.data.types import MediaRef, Volume

_NATIVE = "native"
_CHUNK = 1 << 20
_NAMED_BY_CONTENT = re.compile(r"([0-9a-f]{64})\.")


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
        entry = self.folder / f"{self.digest(path)}-{_NATIVE}.safetensors"
        if not entry.is_file():
            write_volume(entry, read_volume(path))
        return read_stored_volume(entry)

    def prepared(self, ref: MediaRef, transform: VolumeTransform) -> NDArray[np.float32]:
        """Returns what `transform` makes of the volume and of the masks that it reads, computed once.

        Raises:
            FileNotFoundError: There is nothing at the path.
            ValueError: The volume is refused, or an entry of the cache is damaged.
        """
        values = self.made(self.name(ref, transform), lambda: transform(load_volume(ref, transform.organs)))
        return np.asarray(values, dtype=np.float32)

    def made(self, name: str, make: Callable[[], NDArray[np.generic]]) -> NDArray[np.generic]:
        """Returns the entry of that name; `make` is asked for it where it is not there.

        Raises:
            ValueError: The entry is damaged.
        """
        entry = self.folder / f"{name}.safetensors"
        if not entry.is_file():
            write_values(entry, make(), {})
        values, _ = read_values(entry)
        return values

    def name(self, ref: MediaRef, transform: VolumeTransform) -> str:
        """Returns what names a volume, the masks that `transform` reads of it, and `transform`.

        Raises:
            FileNotFoundError: There is nothing at the path.
        """
        asked = ref.target or transform.organs
        masks = "".join(f"-{organ}-{self.digest(path)}" for organ, path in ref.masks if organ in asked)
        masks += "".join(f"-of-{organ}" for organ in ref.target)
        content = hashlib.sha256(f"{self.digest(ref.path)}{masks}".encode()).hexdigest()[:32]
        return f"{content}-{transform_hash(transform)}"

    def digest(self, path: Path) -> str:
        """Returns 32 hex digits of what a file, or the files of a folder, hold.

        Raises:
            FileNotFoundError: There is nothing at the path.
        """
        if not path.exists():
            raise FileNotFoundError(f"no volume at {path}")
        # A prepared folder names its media by their content: a large scan need not be read for its digest.
        if named := _NAMED_BY_CONTENT.match(path.name):
            return named[1][:32]
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
