"""Notes what of a prepared folder is finished, so that an interrupted preparation goes on.

An entry's key is a hash over what the entry was made from; names of patients are not in it. Files and settings that
changed have another key.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medtune.data.files import file_digest
from medtune.data.json_text import json_value
from medtune.data.media.videos.read import Extent
from medtune.data.prepared.copy_media import CopiedFile
from medtune.data.prepared.decoded_content import Content
from medtune.data.types import Size
from medtune.version import __version__

Outcome = CopiedFile | str
"""A copied file, or the reason why a file could not be copied."""


class Finished:
    """The results that are finished by their keys, in a file to which each is appended when it is there.

    Attributes:
        is_empty: Whether nothing is finished.
    """

    def __init__(self, file: Path) -> None:
        self._found: dict[str, Any] = {}
        content = file.read_bytes() if file.is_file() else b""
        for line in content.splitlines():
            try:
                key, found = json_value(line)
            except ValueError:
                # The process was killed while it wrote this line.
                continue
            self._found[key] = found
        self.is_empty = not self._found
        self._file = file.open("a", encoding="utf-8")
        if content and not content.endswith(b"\n"):
            self._file.write("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def before(self, key: str) -> Any:
        """Returns what an earlier attempt has kept under a key, as JSON holds it; None if there is nothing."""
        return self._found.get(key)

    def keep(self, key: str, found: Any) -> Any:
        """Keeps a result for the next attempt, and returns it as JSON holds it."""
        self.is_empty = False
        line = json.dumps([key, found])
        self._file.write(f"{line}\n")
        self._file.flush()
        return json_value(line)[1]

    def copies_before(self, key: str, media: Path) -> list[Outcome] | None:
        """Returns the files that were copied under a key; None if none were, or if they are not as they were.

        A file of another size is removed, so that it is copied anew.
        """
        written = self.before(key)
        if written is None:
            return None
        outcomes = [_read(each) for each in written]
        for outcome, each in zip(outcomes, written, strict=True):
            if isinstance(outcome, CopiedFile):
                file = media / outcome.file
                if not file.is_file() or file.stat().st_size != each["bytes"]:
                    file.unlink(missing_ok=True)
                    return None
        return outcomes

    def keep_copies(self, key: str, outcomes: Sequence[Outcome], media: Path) -> None:
        self.keep(key, [_written(each, media) for each in outcomes])


def content_key(*said: object) -> str:
    """Returns a hash over what files are made from and over medtune's version, hex."""
    return hashlib.sha256(json.dumps([__version__, *said]).encode()).hexdigest()


def path_said(path: Path) -> list[object]:
    """Returns what tells whether a file, or a folder's files, changed: names, sizes and times of the last change."""
    return [str(path.absolute()), *([file.name, *_stamp(file)] for file in _files(path))]


def content_said(path: Path, folder: Path) -> list[object]:
    """Returns the same for a file that is made anew each time: its place in a folder, and its content."""
    return [str(path.relative_to(folder)), *([file.name, file_digest(file)] for file in _files(path))]


def _files(path: Path) -> Iterable[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _written(outcome: Outcome, media: Path) -> dict[str, Any]:
    if isinstance(outcome, str):
        return {"wrong": outcome}
    fields = {name: getattr(outcome, name) for name in outcome.__dataclass_fields__}
    return {"copied": fields, "bytes": (media / outcome.file).stat().st_size}


def _read(written: dict[str, Any]) -> Outcome:
    if "wrong" in written:
        return str(written["wrong"])
    fields = dict(written["copied"])
    if fields["size"] is not None:
        fields["size"] = Size(*fields["size"])
    if fields["extent"] is not None:
        size, times_s, duration_s = fields["extent"]
        fields["extent"] = Extent(Size(*size), tuple(times_s), duration_s)
    if fields["content"] is not None:
        digest, pictures, *more = fields["content"]
        fields["content"] = Content(digest, tuple(pictures), *more)
    return CopiedFile(**fields)
