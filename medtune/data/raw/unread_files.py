"""Finds the data files of a user's folder that no source reads, so that none is lost in silence."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from medtune.data.raw.split_names import LEFT_OUT, file_stem, split_of_file

_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".xlsx", ".xls")
_SHOWN = 3


def unread_files(folder: Path, read: Collection[Path]) -> list[str]:
    """Returns the data files under a folder, however deep, that are not among those that are read.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    known = {os.path.abspath(path) for path in read}
    found = []
    for above, inner, files in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".")]
        data = (name for name in files if name.lower().endswith(_SUFFIXES) and not name.startswith("."))
        paths = (os.path.join(above, name) for name in data)
        found += [os.path.relpath(path, folder) for path in paths if os.path.abspath(path) not in known]
    return sorted(found)


def unread_note(folder: Path, names: Collection[str], meant: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a note with the number and the first names of data files that are not read; no note where there are none.

    Args:
        folder: The user's folder.
        names: The files, relative to the folder.
        meant: What the user says that names of files stand for; those that he leaves out are not counted.
    """
    left = [name for name in names if meant.get(file_stem(name)) != LEFT_OUT]
    if lost := [name for name in left if _states_evaluation(name, meant)]:
        raise ValueError(
            f"{folder}: {_listed(lost)} would not be read, although the name states test or val. Data files are read "
            "in the folder itself, and by the source table also in the folders in it. Move the file there, give its "
            "folder with --from, name another source with --source, or leave it out with "
            f"--splits {file_stem(lost[0])}={LEFT_OUT}."
        )
    return (f"data files that were not read: {_listed(left)}",) if left else ()


def _states_evaluation(name: str, meant: Mapping[str, str]) -> bool:
    try:
        return split_of_file(name, meant) in ("val", "test")
    except ValueError:
        return True


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(list(names)[:_SHOWN])}{more}"
