"""Lets one process at a time work on a folder, also where several machines see the folder.

A lock is a small file that its holder touches every few seconds. It is made by linking, which is atomic on network
disks as well, and not by locking, which is not. The lock of a process that is gone is taken over: at once on its
machine or by its own SLURM job that was queued again, and elsewhere after minutes without a touch, by the clock of the
disk.
"""

import contextlib
import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from errno import EMLINK, ENOTSUP, EPERM
from pathlib import Path
from typing import Any, NamedTuple

from medtune.data.files import unique_mark
from medtune.data.json_text import json_value

TOUCH_S, GONE_S = 15.0, 300.0


class Work(NamedTuple):
    """The words about a kind of work, for messages."""

    does: str
    instead: str


class LockedError(ValueError):
    """Another process works on the folder."""


class Lock:
    """A lock that this process holds."""

    def __init__(self, path: Path, mark: str, out: Path) -> None:
        self._path = path
        self._mark = mark
        self._out = out

    def check(self) -> None:
        """Checks that the lock is still this process's own."""
        said = _holder(self._path) or {}
        if said.get("mark") != self._mark:
            raise ValueError(_taken_over(self._out, said))


@contextlib.contextmanager
def locked(path: Path, work: Work, *, out: Path) -> Iterator[Lock]:
    """Holds the lock of a file while the context lasts.

    Args:
        out: The folder that is worked on, for messages.

    Raises:
        LockedError: Another process holds the lock; the message says which, since when, and what to do.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = unique_mark()
    draft = path.with_name(f".{path.name}.{mark}")
    draft.write_text(json.dumps(_about(mark)), encoding="utf-8")
    try:
        _take(draft, path, work, out)
    finally:
        draft.unlink(missing_ok=True)
    ended = threading.Event()
    touching = threading.Thread(target=_touch, args=(path, ended), daemon=True)
    touching.start()
    lock = Lock(path, mark, out)
    try:
        yield lock
    finally:
        ended.set()
        touching.join()
        with contextlib.suppress(ValueError, OSError):
            lock.check()
            path.unlink()


def refuse_locked(path: Path, work: Work, *, out: Path) -> None:
    """Refuses a folder on which a living process works; locks nothing."""
    if path.is_file():
        draft = path.with_name(f".{path.name}.{unique_mark()}")
        try:
            _refuse_living(path, draft, work, out)
        finally:
            draft.unlink(missing_ok=True)


def refuse_taken_over(path: Path, *, out: Path) -> None:
    """Refuses to go on where another process than this one holds the lock; without any lock it does nothing."""
    said = _holder(path)
    if said is not None and (said["pid"], said["machine"]) != (os.getpid(), _machine()):
        raise ValueError(_taken_over(out, said))


def _taken_over(out: Path, said: dict[str, Any]) -> str:
    other = f"process {said['pid']} on {said['host']}" if said else "another process"
    return (
        f"{out}: {other} has taken over this work, because this process ({os.getpid()}) was not seen for "
        f"{GONE_S / 60:.0f} minutes. It ends here and writes no more"
    )


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


def _take(draft: Path, path: Path, work: Work, out: Path) -> None:
    if path.is_dir():
        raise ValueError(
            f"{path}: this folder is the lock of an earlier version of medtune. Delete it if no command of that "
            f"version works in {out} any more"
        )
    for _ in range(3):
        with contextlib.suppress(FileExistsError):
            _make(draft, path)
            return
        seen = _refuse_living(path, draft, work, out)
        # Renaming is atomic, but may catch a lock that another process made since; that one is put back.
        aside = draft.with_name(f"{draft.name}.gone")
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside)
            if _holder(aside) != seen:
                with contextlib.suppress(FileExistsError):
                    os.link(aside, path)
            aside.unlink()
    raise ValueError(f"{path}: several processes start with the same folder at once. Start one of them again.")


def _make(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in (EPERM, ENOTSUP, EMLINK):
            raise
        # A disk without links, which no two machines share.
        with path.open("x", encoding="utf-8") as file:
            file.write(draft.read_text(encoding="utf-8"))


def _refuse_living(path: Path, draft: Path, work: Work, out: Path) -> dict[str, Any] | None:
    said = _holder(path)
    try:
        touched = path.stat().st_mtime
    except FileNotFoundError:
        return said
    # A file that is touched here and now has the time of the disk's own clock.
    draft.touch()
    silent_s = draft.stat().st_mtime - touched
    if said is None or _is_gone(said) or (silent_s > GONE_S and not _is_here(said)):
        return said
    end = (
        f"Its end is seen at once: `kill {said['pid']}` ends it."
        if _is_here(said)
        else f"If it is gone, it is taken for gone after {GONE_S / 60:.0f} minutes."
    )
    raise LockedError(
        f"{out}: process {said['pid']} on {said['host']} {work.does} since {said.get('since', 'some time')}, by "
        f"{said.get('user', 'an unknown user')}, last seen {max(silent_s, 0):.0f} s ago. {work.instead} {end}"
    )


def _is_here(said: dict[str, Any]) -> bool:
    return said["machine"] is not None and said["machine"] == _machine()


def _is_gone(said: dict[str, Any]) -> bool:
    """Returns whether it is certain that a lock's process has ended: seen here, or queued again by SLURM."""
    now, before = _job(), said.get("job")
    again = now is not None and isinstance(before, list) and before[:1] == now[:1] and before != now
    return again or (_is_here(said) and _born(said["pid"]) != said["born"])


def _holder(path: Path) -> dict[str, Any] | None:
    try:
        said = json_value(path.read_text(encoding="utf-8"))
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
