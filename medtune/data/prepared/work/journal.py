"""Notes which media files of a prepared folder are finished, so that an interrupted preparation continues.

Each process that prepares appends to a file of its own, so that several machines may work on one share. An entry's key
is a hash over what the files were made from; names of patients are not in it. Files and settings that changed have
another key.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Extent
from medtune.data.prepared.content.decoded import Content
from medtune.data.prepared.copy_media import CopiedFile
from medtune.data.unique_names import unique_mark
from medtune.version import __version__

Outcome = CopiedFile | str
"""A copied file, or the reason why a file could not be copied."""


class Journal:
    """The entries of all processes, and the file to which this one appends.

    Args:
        folder: The folder of the journal's files.
        media: The media folder, which holds the finished files.

    Attributes:
        suspects: The keys of what was begun and not finished by a process that read files itself, or that killed the
            process that read it.
    """

    def __init__(self, folder: Path, media: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._media = media
        self._finished: dict[str, list[Any]] = {}
        begun: set[str] = set()
        for path in sorted(folder.glob("*.jsonl")):
            for entry in _entries(path):
                begun.add(entry["key"])
                if "files" in entry:
                    self._finished[entry["key"]] = entry["files"]
        self.suspects = begun - self._finished.keys()
        self._file = (folder / f"{unique_mark()}.jsonl").open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is finished."""
        return not self._finished

    def finished(self, key: str) -> list[Outcome] | None:
        """Returns what was made under a key; None if nothing was, or if its files are not as they were."""
        if key not in self._finished:
            return None
        outcomes = [_read(each) for each in self._finished[key]]
        for outcome, written in zip(outcomes, self._finished[key], strict=True):
            if isinstance(outcome, CopiedFile):
                file = self._media / outcome.file
                if not file.is_file() or file.stat().st_size != written["bytes"]:
                    return None
        return outcomes

    def begin(self, key: str) -> None:
        """Notes that something is begun that may kill its process."""
        self._append({"key": key})

    def finish(self, key: str, outcomes: Sequence[Outcome]) -> None:
        files = [_written(each, self._media) for each in outcomes]
        self._finished[key] = files
        self._append({"key": key, "files": files})

    def _append(self, entry: object) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


def content_key(*said: object) -> str:
    """Returns a hash over what files are made from and over medtune's version, hex."""
    return hashlib.sha256(json.dumps([__version__, *said]).encode()).hexdigest()


def path_said(path: Path) -> list[object]:
    """Returns what tells whether a file, or a folder's files, changed: names, sizes and times of the last change."""
    return [str(path.absolute()), *([file.name, *_stamp(file)] for file in _files(path))]


def content_said(path: Path, folder: Path) -> list[object]:
    """Returns the same for a file that is made anew each time: its place in a folder, and its content."""
    return [
        str(path.relative_to(folder)),
        *([file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in _files(path)),
    ]


def _files(path: Path) -> Iterable[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _entries(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found.append(entry)
    return found


def _written(outcome: Outcome, media: Path) -> dict[str, Any]:
    if isinstance(outcome, str):
        return {"wrong": outcome}
    return {"copied": _fields(outcome), "bytes": (media / outcome.file).stat().st_size}


def _fields(file: CopiedFile) -> dict[str, Any]:
    return {name: getattr(file, name) for name in file.__dataclass_fields__}


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
        digest, pictures = fields["content"]
        fields["content"] = Content(digest, tuple(pictures))
    return CopiedFile(**fields)
