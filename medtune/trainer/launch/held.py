"""Lets one command at a time work in a run folder, and takes away what a refused command has made there.

Rank 0 holds the folder for all ranks of its run. The lock names its holder. On this machine it ends with its holder,
however that ends; on another one it is taken for left behind after minutes of silence.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from medtune.data.lock import Work, locked, refuse_locked, refuse_taken_over
from medtune.trainer.runs.run_folder import LAUNCH

RUNNING = Work(
    "works in this run folder",
    "Wait for its end, or stop it and continue with --resume; a new run takes another --out.",
)
_HELD = f"{LAUNCH}/held"
_NO_ROOM_OF_WORK = (LAUNCH, "wandb", "lightning")
"""Folders of a run that hold nothing which a command would have to compute again."""

_BEFORE_WORK = ("recipe.yaml", "environment.json", "weights.json", "doctor.json", "learnt.json", "report.html",
                "start.safetensors")  # fmt: skip
"""Files that a run writes before it has answered or learnt anything."""


class HeldFolder:
    """A run folder that this process holds for its run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._is_new = False

    def begins(self) -> None:
        """Notes that the run is a new one, so that the folder's content is its own."""
        self._is_new = True

    def take_away(self) -> None:
        """Empties the folder if the run is new and has done no work; logs and errors of a launcher stay."""
        if not self._is_new or _holds_work(self.root):
            return
        for path in self.root.iterdir():
            if path.name == LAUNCH:
                (path / "begun_by.json").unlink(missing_ok=True)
            elif path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


@contextlib.contextmanager
def held(root: Path) -> Iterator[HeldFolder]:
    """Holds a run folder while the context lasts; a new run that fails before it has done any work leaves none.

    Raises:
        ValueError: A living process holds the folder; the message says which.
    """
    made = list(_missing(root))
    if root.exists() and not root.is_dir():
        raise NotADirectoryError(f"{root}: this is a file; a run takes a folder, which is made if it is missing")
    try:
        with locked(root / _HELD, RUNNING, out=root):
            folder = HeldFolder(root)
            try:
                yield folder
            except Exception:
                folder.take_away()
                raise
    finally:
        for empty in (root / LAUNCH, *made):
            with contextlib.suppress(OSError):
                os.rmdir(empty)


def refuse_held(root: Path) -> None:
    """Refuses a run folder in which another run works; holds nothing."""
    refuse_locked(root / _HELD, RUNNING, out=root)


def refuse_lost(root: Path) -> None:
    """Ends a run whose folder another machine has taken over, since this one was suspended or cut off for minutes."""
    refuse_taken_over(root / _HELD, out=root)


def _missing(root: Path) -> Iterator[Path]:
    for path in (root, *root.parents):
        if path.exists():
            return
        yield path


def _holds_work(root: Path) -> bool:
    for path in root.rglob("*"):
        place = path.relative_to(root).parts[0]
        is_before = path.name in _BEFORE_WORK or path.name.startswith(".")
        if place not in _NO_ROOM_OF_WORK and not is_before and path.is_file() and path.stat().st_size:
            return True
    return False
