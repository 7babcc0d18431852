"""Makes a prepared folder appear as a whole or not at all, and lets it replace nothing but another prepared folder."""

import os
import shutil
from pathlib import Path

from medtune.data.prepared.manifest import ENTRIES, MANIFEST
from medtune.data.unique_names import unique_mark


def check_replaceable(out: Path) -> None:
    """Checks that a prepared folder may be written to a path: nothing lies there, or an earlier prepared folder."""
    if not out.exists():
        return
    foreign = None if not out.is_dir() else sorted(set(os.listdir(out)) - ENTRIES)
    if foreign is None or foreign or (any(out.iterdir()) and not (out / MANIFEST).is_file()):
        held = f"holds {foreign[0]!r}" if foreign else "was not prepared by medtune"
        raise ValueError(f"{out}: this already exists and {held}; it is left alone. Choose another --out.")


def put_in_place(draft: Path, out: Path) -> None:
    """Makes a finished folder the prepared folder `out`, as a whole; an earlier one is replaced."""
    check_replaceable(out)
    replaced = out.with_name(f".{out.name}.{unique_mark()}.old")
    try:
        if out.exists():
            out.rename(replaced)
        try:
            draft.rename(out)
        except OSError:
            if replaced.exists():
                replaced.rename(out)
            raise
    finally:
        shutil.rmtree(replaced, ignore_errors=True)
