"""Caches transformed volumes on disk, so that each is decoded and transformed once and then only read.

An entry is a volume on a model's grid as float32, or the code ids that a frozen tower made of it. The names of entries
are hashes of content, masks, transform and tower, so that no name of a source survives, and a changed file or setting
is another entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medtune.data.media.volumes.formats.stored_volume import read_values, write_values
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.transform import VolumeTransform, transform_hash
from medtune.data.types import MediaRef

_NAMED_BY_CONTENT = re.compile(r"([0-9a-f]{64})\.")


@dataclass(frozen=True, slots=True)
class VolumeCache:
    """Reads volumes through a folder of cached results; each transform of a volume is computed once.

    Attributes:
        folder: The folder of entries, made if it is missing; several processes may share it.
    """

    folder: Path
    _digests: dict[tuple[Path, int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def transformed(self, ref: MediaRef, transform: VolumeTransform) -> NDArray[np.float32]:
        """Returns the transformed volume with the masks that the transform reads, computed once.

        Raises:
            FileNotFoundError: There is nothing at the path.
            ValueError: The volume is refused, or an entry of the cache is damaged.
        """
        values = self.computed_once(self.name(ref, transform), lambda: transform(load_volume(ref, transform.organs)))
        return np.asarray(values, dtype=np.float32)

    def computed_once(self, name: str, make: Callable[[], NDArray[np.generic]]) -> NDArray[np.generic]:
        """Returns the cached values of a name, which `make` computes if the cache does not hold them.

        Raises:
            ValueError: The entry is damaged.
        """
        entry = self.folder / f"{name}.safetensors"
        if not entry.is_file():
            write_values(entry, make(), {})
        values, _ = read_values(entry)
        return values

    def name(self, ref: MediaRef, transform: VolumeTransform) -> str:
        """Returns the name of the entry for a volume, the masks that `transform` reads, and `transform`.

        Raises:
            FileNotFoundError: There is nothing at the path.
        """
        asked = ref.target or transform.organs
        masks = "".join(f"-{organ}-{self.digest(path)}" for organ, path in ref.masks if organ in asked)
        masks += "".join(f"-of-{organ}" for organ in ref.target)
        content = hashlib.sha256(f"{self.digest(ref.path)}{masks}".encode()).hexdigest()[:32]
        return f"{content}-{transform_hash(transform)}"

    def digest(self, path: Path) -> str:
        """Returns 32 hex digits of a hash over the content of a volume's file, or of the files in its folder.

        Raises:
            FileNotFoundError: There is nothing at the path.
        """
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such volume. Check the path.")
        # A prepared folder names its media by their content, so that a large scan need not be read for its digest.
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
            with file.open("rb") as opened:
                self._digests[key] = hashlib.file_digest(opened, "sha256").hexdigest()
        return self._digests[key]
