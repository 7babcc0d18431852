"""Lets one process at a time work on a folder, or on one share of it, also on several machines with one disk.

A claim is a small file that its owner touches every few seconds. It is made by linking, which is atomic on network
disks as well, and not by locking, which is not. The claim of a process that is gone is taken over: at once on its
machine or by its own SLURM job that was queued again, and elsewhere after minutes without a touch, by the clock of the
disk.

Notes which media files of a prepared folder are finished, so that an interrupted preparation continues.

Each process that prepares appends to a file of its own, so that several machines may work on one share. An entry's key
is a hash over what the files were made from; names of patients are not in it. Files and settings that changed have
another key.
"""

import contextlib
import getpass
import hashlib
import json
import os
import socket
import threading
import time
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
    # Whether a process of this machine that lives and does not touch its claim for minutes is taken for gone.
    silent_is_gone: bool = True


PREPARING = Work(
    "prepares this folder", "Wait for it, or choose another --out; several processes share the work with --share K/N."
)


class Claim:
    """A claim that this process holds."""

    def __init__(self, path: Path, mark: str, out: Path) -> None:
        self._path = path
        self._mark = mark
        self._out = out

    def check(self) -> None:
        """Checks that the claim is still this process's own."""
        if (_said(self._path) or {}).get("mark") != self._mark:
            raise ValueError(
                f"{self._out}: another process has taken over this work, because this one was not seen for "
                f"{GONE_S / 60:.0f} minutes ({self._path.name}). What is finished is kept; wait for the other one."
            )


@contextlib.contextmanager
def claimed(folder: Path, name: str = WHOLE, work: Work = PREPARING, *, out: Path | None = None) -> Iterator[Claim]:
    """Claims a work folder: as a whole, which excludes everybody, or a share, which excludes that share and WHOLE.

    Args:
        out: The folder that is worked on, for messages; None is the one above `folder`.
    """
    out = out or folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    mark = unique_mark()
    mine, draft = folder / name, folder / f".{mark}"
    draft.write_text(json.dumps(_about(mark)), encoding="utf-8")
    try:
        _take(draft, mine, work, out)
        try:
            for other in sorted(folder.iterdir()):
                if not other.name.startswith(".") and other != mine and WHOLE in (name, other.name):
                    _refuse_living(other, draft, work, out)
        except ValueError:
            mine.unlink(missing_ok=True)
            raise
    finally:
        draft.unlink(missing_ok=True)
    ended = threading.Event()
    touching = threading.Thread(target=_touch, args=(mine, ended), daemon=True)
    touching.start()
    claim = Claim(mine, mark, out)
    try:
        yield claim
    finally:
        ended.set()
        touching.join()
        with contextlib.suppress(ValueError, OSError):
            claim.check()
            mine.unlink()


def _about(mark: str) -> dict[str, Any]:
    return {
        "mark": mark,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "user": _user(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": _machine(),
        "born": _born(),
        "job": _job(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may have no name for the user's number.
        return f"user {os.getuid()}"


def _job() -> list[str] | None:
    """Returns the SLURM job of this process and how often it was queued again; None outside of a job."""
    job, cluster = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_CLUSTER_NAME", "")
    return None if job is None else [f"{cluster}/{job}", os.environ.get("SLURM_RESTART_COUNT", "0")]


def _take(draft: Path, mine: Path, work: Work, out: Path) -> None:
    for _ in range(3):
        with contextlib.suppress(FileExistsError):
            _make(draft, mine)
            return
        seen = _refuse_living(mine, draft, work, out)
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


def refuse_claimed(folder: Path, name: str, work: Work, *, out: Path) -> None:
    """Refuses a folder of which a living process has claimed what `name` says; claims nothing."""
    mine = folder / name
    if not mine.is_file():
        return
    draft = folder / f".{unique_mark()}"
    try:
        _refuse_living(mine, draft, work, out)
    finally:
        draft.unlink(missing_ok=True)


def refuse_taken_over(folder: Path, name: str, *, out: Path) -> None:
    """Refuses to go on where another process than this one holds a claim; without any claim it does nothing."""
    said = _said(folder / name)
    if said is not None and (said["pid"], said["machine"]) != (os.getpid(), _machine()):
        raise ValueError(
            f"{out}: process {said['pid']} on {said['host']} has taken over this work, because this process "
            f"({os.getpid()}) was not seen for {GONE_S / 60:.0f} minutes. It ends here and writes no more"
        )


def _refuse_living(path: Path, draft: Path, work: Work, out: Path) -> dict[str, Any] | None:
    said = _said(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return said
    # A file that is touched here and now has the time of the disk's own clock.
    draft.touch()
    silent_s = draft.stat().st_mtime - touched
    if said is None or _is_gone(said) or (silent_s > GONE_S and (work.silent_is_gone or not _is_here(said))):
        return said
    since = f" since {said['since']}" if "since" in said else ""
    raise ValueError(
        f"{out}: process {said['pid']} on {said['host']} {work.does} ({path.name}){since}, by "
        f"{said.get('user', 'an unknown user')}, last seen {max(silent_s, 0):.0f} s ago. {work.instead}"
        f"{_when_gone(said, work)}"
    )


def _when_gone(said: dict[str, Any], work: Work) -> str:
    if _is_here(said) and not work.silent_is_gone:
        return f" Its end is seen at once: `kill {said['pid']}` ends it."
    return f" If it is gone, it is taken for gone after {GONE_S / 60:.0f} minutes."


def _is_here(said: dict[str, Any]) -> bool:
    return said["machine"] is not None and said["machine"] == _machine()


def _is_gone(said: dict[str, Any]) -> bool:
    """Returns whether it is certain that a claim's process has ended: seen here, or queued again by SLURM."""
    now, before = _job(), said.get("job")
    again = now is not None and isinstance(before, list) and before[:1] == now[:1] and before != now
    return again or (_is_here(said) and _born(said["pid"]) != said["born"])


def _said(path: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    wanted = {"mark", "host", "pid", "machine", "born"}
    return said if isinstance(said, dict) and wanted <= said.keys() and isinstance(said["pid"], int) else None


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
