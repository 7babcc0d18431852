"""Lets one process at a time work on a prepared folder, or on one share of it, also on several machines with one disk.

A claim is a small file that its owner touches every few seconds. It is made by linking, which is atomic on network
disks as well, and not by locking, which is not. The claim of a process that is gone is taken over: at once on its
machine, and elsewhere after minutes without a touch, by the clock of the disk.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from errno import EMLINK, ENOTSUP, EPERM
from pathlib import Path
from typing import Any, NamedTuple

from medtune.data.unique_names import unique_mark

TOUCH_S, GONE_S = 15.0, 300.0
WHOLE = "whole"


class Work(NamedTuple):
    """The words about a kind of work, for messages.

    Attributes:
        does: What the other process does with the folder.
        instead: What the user can do.
    """

    does: str
    instead: str


PREPARING = Work(
    "prepares this folder",
    "Wait for it, or choose another --out; several processes share the work with --share K/N.",
)


class Claim:
    """A claim that this process holds.

    Args:
        path: The claim's file.
        mark: What tells it from the claims of others.
    """

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
    """Claims a work folder: as a whole, which excludes everybody, or a share, which excludes the same share and WHOLE.

    Args:
        folder: The folder of the claims, in the folder that is worked on.
        name: The share, or WHOLE.
        work: The words about the work.
    """
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
