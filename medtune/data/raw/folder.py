"""Checks a folder of raw files before its files are read: missing, empty, unexpected or hidden entries."""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from medtune.data.raw.row_errors import Place, Reject, RowError
from medtune.data.raw.split_names import LEFT_OUT, file_stem, split_of_file

MASK_WITHOUT_IMAGE = "there is no image for this mask. Copy the image, or remove the mask."
# Operating systems put these files into every folder that a person has opened.
_CLUTTER = ("thumbs.db", "desktop.ini")


def raw_folder(root: Path | None, *, holds: str) -> Path:
    """Returns `root` if it is a raw folder with something in it; `holds` says in words what should be there."""
    if root is None:
        raise ValueError(f"wanted a folder with {holds}, none was given. Give it with --from DIR.")
    if not root.exists():
        raise FileNotFoundError(f"{root}: wanted a folder with {holds}, there is none. Check the path.")
    if not root.is_dir():
        raise ValueError(f"{root}: wanted a folder with {holds}, this is a file. Unpack it, or give its folder.")
    if not visible_entries(root):
        raise ValueError(f"{root}: wanted {holds}, the folder is empty. Download the data again.")
    return root


def visible_entries(folder: Path) -> list[Path]:
    """Returns the entries of a raw folder sorted by name, without hidden files and those of the operating system."""
    return sorted(entry for entry in folder.iterdir() if not _is_clutter(entry))


def clutter_note(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns a note with the number of hidden files that `visible_entries` leaves out; no note if there are none."""
    count = sum(_is_clutter(entry) for folder in folders for entry in folder.iterdir())
    return (f"skipped {count} hidden or system files",) if count else ()


def unexpected_file(path: Path, place: Place, *, wanted: str) -> RowError:
    """Returns the error for a raw file that the release does not contain, such as an image under another name."""
    return place.error(f"unexpected file, wanted {wanted}. Move it out of the folder.", media=path)


def masks_without_image(images: Path, masks: Path, *, file: str) -> tuple[Reject, ...]:
    """Returns a reject for each mask file without an image of the same name; `file` names the masks' folder."""
    there = {path.name for path in images.iterdir()}
    listed = enumerate(visible_entries(masks) if masks.is_dir() else (), start=1)
    return tuple(
        Reject(file, number, None, MASK_WITHOUT_IMAGE, images / mask.name)
        for number, mask in listed
        if mask.name not in there
    )


def _is_clutter(entry: Path) -> bool:
    return entry.name.startswith(".") or entry.name.lower() in _CLUTTER


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
