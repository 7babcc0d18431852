"""Caches transformed volumes on disk, so that each is decoded and transformed once and then only read.

An entry is what a transform keeps of a volume (`VolumeTransform.keep`), or the code ids that a frozen tower made of it.
The names of entries are hashes of content, masks, transform and tower, so that no name of a source survives, and a
changed file or setting is another entry.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medtune.data.files import file_digest, unique_mark
from medtune.data.media.volumes.formats.stored_volume import AGAIN, PARTIAL, read_values, write_values
from medtune.data.media.volumes.read import load_volume
from medtune.data.media.volumes.transforms.transform import Kept, VolumeTransform, transform_hash
from medtune.data.types import MediaRef

_ABANDONED_S = 600.0
"""Seconds without a write after which an unfinished file is taken for abandoned; an entry is written in seconds."""
_SEAL = "sha256"
"""The text beside an entry's values that says their digest, which is compared when a process first reads them."""
_NAMED_BY_CONTENT = re.compile(r"([0-9a-f]{64})\.")


class Entry(NamedTuple):
    name: str
    make: Callable[[], Kept]


@dataclass(frozen=True, slots=True)
class VolumeCache:
    """Reads volumes through a folder of cached results; each transform of a volume is computed once."""

    folder: Path  # The folder of entries, made if it is missing; several processes may share it.
    _digests: dict[tuple[Path, int, int], str] = field(default_factory=dict, repr=False, compare=False)
    _checked: set[str] = field(default_factory=set, repr=False, compare=False)

    def transformed(self, ref: MediaRef, transform: VolumeTransform) -> NDArray[np.float32]:
        """Returns the transformed volume with the masks that the transform reads, computed once."""
        return transform.finish(self.kept(self.entry(ref, transform)))

    def entry(self, ref: MediaRef, transform: VolumeTransform) -> Entry:
        """Returns the entry of a volume with the masks that the transform reads."""
        return Entry(self.name(ref, transform), lambda: transform.keep(load_volume(ref, transform.organs)))

    def kept(self, entry: Entry) -> Kept:
        """Returns what an entry holds, which is made first if the cache does not have it."""
        if not self.holds(entry):
            self.write(entry, entry.make())
        values, about = read_values(self._file(entry))
        sealed = about.pop(_SEAL, None)
        if entry.name not in self._checked:
            if sealed != _seal(values, about):
                raise ValueError(f"{self._file(entry)}: damaged, or changed. {AGAIN}")
            self._checked.add(entry.name)
        return Kept(values, about)

    def write(self, entry: Entry, kept: Kept) -> None:
        """Writes what an entry holds, as a whole or not at all."""
        write_values(self._file(entry), kept.values, {**kept.about, _SEAL: _seal(kept.values, kept.about)})

    def remove_unfinished(self) -> None:
        """Removes what processes that were killed have left behind: unfinished files that nobody wrote to for long."""
        unfinished = list(self.folder.glob(f".*{PARTIAL}"))
        if not unfinished:
            return
        # A file that is written now has the time of the disk's own clock.
        clock = self.folder / f".{unique_mark()}.clock"
        clock.touch()
        now_s = clock.stat().st_mtime
        clock.unlink()
        for file in unfinished:
            with suppress(FileNotFoundError):
                if now_s - file.stat().st_mtime > _ABANDONED_S:
                    file.unlink()

    def holds(self, entry: Entry) -> bool:
        return self._file(entry).is_file()

    def _file(self, entry: Entry) -> Path:
        return self.folder / f"{entry.name}.safetensors"

    def name(self, ref: MediaRef, transform: VolumeTransform) -> str:
        """Returns the name of the entry for a volume, the masks that `transform` reads, and `transform`."""
        asked = ref.target or transform.organs
        masks = "".join(f"-{organ}-{self.digest(path)}" for organ, path in ref.masks if organ in asked)
        masks += "".join(f"-of-{organ}" for organ in ref.target)
        content = hashlib.sha256(f"{self.digest(ref.path)}{masks}".encode()).hexdigest()[:32]
        return f"{content}-{transform_hash(transform)}"

    def digest(self, path: Path) -> str:
        """Returns 32 hex digits of a hash over the content of a volume's file, or of the files in its folder."""
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
            self._digests[key] = file_digest(file)
        return self._digests[key]


def _seal(values: NDArray[np.generic], about: Mapping[str, str]) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(values).data)
    digest.update(f"{values.dtype} {values.shape} {sorted(about.items())}".encode())
    return digest.hexdigest()
