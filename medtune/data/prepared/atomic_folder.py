"""Makes a prepared folder appear as a whole or not at all, and lets it replace nothing but another prepared folder."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medtune.data.prepared.manifest import ENTRIES, MANIFEST


def check_replaceable(out: Path) -> None:
    """Checks that a prepared folder may be written to a path: nothing lies there, or an earlier prepared folder.

    Raises:
        ValueError: The path is a file, or a folder with other files in it.
    """
    if not out.exists():
        return
    foreign = None if not out.is_dir() else sorted(set(os.listdir(out)) - ENTRIES)
    if foreign is None or foreign or (any(out.iterdir()) and not (out / MANIFEST).is_file()):
        held = f"holds {foreign[0]!r}" if foreign else "was not prepared by medtune"
        raise ValueError(f"{out}: this already exists and {held}; it is left alone. Choose another --out.")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yields an empty folder that replaces the prepared folder `out` at the end, or is removed if anything goes wrong.

    Raises:
        ValueError: Something that is no prepared folder lies at `out`.
        OSError: The disk is full or cannot be written.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    draft = out.with_name(f".{out.name}.{mark}.partial")
    replaced = out.with_name(f".{out.name}.{mark}.old")
    draft.mkdir()
    try:
        yield draft
        check_replaceable(out)
        if out.exists():
            out.rename(replaced)
        try:
            draft.rename(out)
        except OSError:
            if replaced.exists():
                replaced.rename(out)
            raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno, f"the disk is full, {out} was not written. Free some space or choose another --out."
            ) from error
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
