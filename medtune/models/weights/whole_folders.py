"""Folders that are written under a temporary name and count only when they are whole; this module loads no torch."""

import os
import shutil
from pathlib import Path

ABOUT = "about.json"
"""The file with the facts about a checkpoint and the shapes of its tensors. It is written last."""
UNFINISHED = ".unfinished"
"""Ends the name of a folder while it is written."""
BEFORE = ".before"
"""Ends the name of the earlier folder while the new one takes its place."""


def is_checkpoint(path: Path) -> bool:
    """Returns whether a path is a checkpoint: a file, or a folder that was written to its end."""
    return path.is_file() or is_whole(path)


def is_whole(path: Path) -> bool:
    """Returns whether a folder is a checkpoint that was written to its end."""
    return (path / ABOUT).is_file() and not path.name.endswith(UNFINISHED)


def write_last(path: Path, text: str) -> None:
    """Writes the file that says that a folder is whole, and waits until the disk has it."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def take_place(unfinished: Path, path: Path) -> None:
    """Renames a whole folder to its final name; until then, what was there is kept under another name."""
    before = path.with_name(path.name + BEFORE)
    if path.exists():
        shutil.rmtree(before, ignore_errors=True)
        path.rename(before)
    unfinished.rename(path)
    shutil.rmtree(before, ignore_errors=True)
