"""Lets one process at a time work on a prepared folder, or on one share of it, also on several machines with one disk.

A claim is a small file that its owner touches every few seconds. It is made by linking, which is atomic on network
disks as well, and not by locking, which is not. The claim of a process that is gone is taken over: at once on its
machine, and elsewhere after minutes without a touch, by the clock of the disk.

Notes which media files of a prepared folder are finished, so that an interrupted preparation continues.

Each process that prepares appends to a file of its own, so that several machines may work on one share. An entry's key
is a hash over what the files were made from; names of patients are not in it. Files and settings that changed have
another key.
"""

import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from errno import EMLINK, ENOTSUP, EPERM
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from medtune.data.files import file_digest, unique_mark
from medtune.data.media.videos.read import Extent
from medtune.data.prepared.copy_media import CopiedFile
from medtune.data.prepared.decoded_content import Content
from medtune.data.types import Size
from medtune.version import __version__

TOUCH_S, GONE_S = 15.0, 300.0
WHOLE = "whole"


class Work(NamedTuple):
    """The words about a kind of work, for messages."""

    does: str
    instead: str


PREPARING = Work(
    "prepares this folder", "Wait for it, or choose another --out; several processes share the work with --share K/N."
)


class Claim:
    """A claim that this process holds."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self._mark = mark

    def check(self) -> None:
        """Checks that the claim is still this process's own."""
        if (_said(self._path) or {}).get("mark") != self._mark:
            raise ValueError(
                f"{self._path}: another process has taken over this preparation, because this one was not seen for "
                f"{GONE_S / 60:.0f} minutes. What is finished is kept; wait for the other one."
            )


@contextlib.contextmanager
def claimed(folder: Path, name: str = WHOLE, work: Work = PREPARING) -> Iterator[Claim]:
    """Claims a work folder: as a whole, which excludes everybody, or a share, which excludes that share and WHOLE."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = unique_mark()
    mine, draft = folder / name, folder / f".{mark}"
    about = {"mark": mark, "host": socket.gethostname(), "pid": os.getpid(), "machine": _machine(), "born": _born()}
    draft.write_text(json.dumps(about), encoding="utf-8")
    try:
        _take(draft, mine, work)
        try:
            for other in sorted(folder.iterdir()):
                if not other.name.startswith(".") and other != mine and WHOLE in (name, other.name):
                    _refuse_living(other, draft, work)
        except ValueError:
            mine.unlink(missing_ok=True)
            raise
    finally:
        draft.unlink(missing_ok=True)
    ended = threading.Event()
    touching = threading.Thread(target=_touch, args=(mine, ended), daemon=True)
    touching.start()
    claim = Claim(mine, mark)
    try:
        yield claim
    finally:
        ended.set()
        touching.join()
        with contextlib.suppress(ValueError, OSError):
            claim.check()
            mine.unlink()


def _take(draft: Path, mine: Path, work: Work) -> None:
    for _ in range(3):
        with contextlib.suppress(FileExistsError):
            _make(draft, mine)
            return
        seen = _refuse_living(mine, draft, work)
        # Renaming is atomic, but may catch a claim that another process made since; that one is put back.
        aside = draft.with_name(f"{draft.name}.gone")
        with contextlib.suppress(FileNotFoundError):
            mine.rename(aside)
            if _said(aside) != seen:
                with contextlib.suppress(FileExistsError):
                    os.link(aside, mine)
            aside.unlink()
    raise ValueError(f"{mine}: several processes start with the same folder at once. Start one of them again.")


def _make(draft: Path, mine: Path) -> None:
    try:
        os.link(draft, mine)
    except OSError as error:
        if error.errno not in (EPERM, ENOTSUP, EMLINK):
            raise
        # A disk without links, which no two machines share.
        with mine.open("x", encoding="utf-8") as file:
            file.write(draft.read_text(encoding="utf-8"))


def _refuse_living(path: Path, draft: Path, work: Work) -> dict[str, Any] | None:
    said = _said(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return said
    # A file that is touched here and now has the time of the disk's own clock.
    draft.touch()
    silent_s = draft.stat().st_mtime - touched
    if said is None or (said["machine"] == _machine() and not _lives(said)) or silent_s > GONE_S:
        return said
    out = path.parent.parent
    raise ValueError(
        f"{out}: process {said['pid']} on {said['host']} {work.does} ({path.name}), last seen "
        f"{max(silent_s, 0):.0f} s ago. {work.instead} If it is gone, it is taken for gone after {GONE_S / 60:.0f} "
        "minutes."
    )


def _said(path: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) and {"mark", "host", "pid", "machine", "born"} <= said.keys() else None


def _touch(path: Path, ended: threading.Event) -> None:
    while not ended.wait(TOUCH_S):
        with contextlib.suppress(OSError):
            os.utime(path)


def _machine() -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _born(pid: int | None = None) -> str:
    try:
        status = Path(f"/proc/{pid or os.getpid()}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    after = status.rpartition(")")[2].split()
    return "" if after[0] == "Z" else after[19]


def _lives(said: dict[str, Any]) -> bool:
    return said["machine"] is None or _born(int(said["pid"])) == said["born"]


Outcome = CopiedFile | str
"""A copied file, or the reason why a file could not be copied."""


class Journal:
    """The entries of all processes, and the file to which this one appends.

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
    return [str(path.relative_to(folder)), *([file.name, file_digest(file)] for file in _files(path))]


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
        digest, pictures, *more = fields["content"]
        fields["content"] = Content(digest, tuple(pictures), *more)
    return CopiedFile(**fields)
