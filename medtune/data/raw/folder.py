"""Checks a folder of raw files before its files are read: missing, empty, unexpected or hidden entries."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from medtune.data.catalog import nearest
from medtune.data.raw.source import Place, Reject, RowError
from medtune.data.types import SPLITS, Split

_NAMES: Mapping[str, Split] = {
    **dict.fromkeys(("train", "training", "trainset"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev", "development", "valset", "devset"), "val"),
    **dict.fromkeys(("test", "testing", "testset"), "test"),
}
LEFT_OUT = "none"
_MOST_SHOWN = 12
_WAY_OUT = f"Say what it stands for with --splits NAME=train|val|test, or leave its rows out: --splits NAME={LEFT_OUT}."


_LONGEST_NAME = 60

MASK_WITHOUT_IMAGE = "there is no image for this mask. Copy the image, or remove the mask."
# Operating systems put these files into every folder that a person has opened, and vendors the last into exports.
_CLUTTER = ("thumbs.db", "desktop.ini", "dicomdir")
_NO_MEDIA = (".txt", ".md", ".pdf", ".doc", ".docx", ".rtf", ".html", ".log", ".url", ".lnk", ".tmp", ".part", ".bak")
"""The suffixes of what people put beside pictures: notes, licences, links, and downloads that did not end."""
_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".xlsx", ".xls")
_SHOWN = 3


def split_named(name: str, meant: Mapping[str, str]) -> Split | None:
    """Returns the split that a name stands for; None where the user leaves its rows out.

    >>> split_named("Validation", {}), split_named("mini", {"mini": "test"}), split_named("x", {"x": "none"})
    ('val', 'test', None)
    """
    said = meant.get(name, _NAMES.get(name.strip().casefold(), name))
    if said == LEFT_OUT:
        return None
    for split in SPLITS:
        if said == split:
            return split
    if name in meant:
        raise ValueError(f"--splits {name}={said}: wanted {', '.join(SPLITS)} or {LEFT_OUT} behind the sign.")
    raise ValueError(
        f"{name[:_LONGEST_NAME]!r} is no split that medtune knows. It knows {', '.join(_NAMES)}. {_WAY_OUT}"
    )


def split_of_file(name: str, meant: Mapping[str, str]) -> Split | str | None:
    """Returns the split that the name of a file or of its folders states; None where it states none.

    Args:
        name: The path of the file relative to the data set's folder, such as "data/vqa_test-00000-of-00001.parquet".
        meant: What the user says that names of files stand for; such a name has no suffix, and `LEFT_OUT` is returned
            as it is.

    >>> split_of_file("vqa/test_2.csv", {}), split_of_file("rows.csv", {}), split_of_file("a.csv", {"a": "val"})
    ('test', None, 'val')
    """
    if (stem := file_stem(name)) in meant:
        return split_named(stem, meant) or LEFT_OUT
    words = re.split(r"[^a-z]+", name.rpartition(".")[0].casefold())
    found = {_NAMES[word] for word in words if word in _NAMES}
    if len(found) > 1:
        raise ValueError(f"{name}: the name states the splits {' and '.join(sorted(found))}. Rename it. {_WAY_OUT}")
    return next(iter(found), None)


def file_stem(name: str) -> str:
    """Returns the name by which the user speaks of a file's split: that of the file without its suffixes."""
    return name.rpartition("/")[2].partition(".")[0]


def check_all_used(meant: Mapping[str, str], there: Iterable[str]) -> None:
    """Checks that the data have each of the names of which the user says what they stand for."""
    names = sorted(set(there))
    for name in meant:
        if name not in names:
            listed = ", ".join(map(repr, names[:_MOST_SHOWN])) + (", ..." if len(names) > _MOST_SHOWN else "")
            raise ValueError(
                f"--splits {name}={meant[name]}: the data have no such name, which is compared with its case."
                f"{nearest(name, names)} The names are: {listed or 'none'}."
            )


def splits_of_files(names: Iterable[str], meant: Mapping[str, str]) -> dict[str, Split | None]:
    """Returns the split of each file, without those that the user leaves out."""
    found = {name: split_of_file(name, meant) for name in names}
    kept: dict[str, Split | None] = {}
    for name, said in found.items():
        if said != LEFT_OUT:
            kept[name] = None if said is None else split_named(said, {})
    unnamed = [name for name, split in kept.items() if split is None]
    if unnamed and len(unnamed) < len(kept):
        named = next(name for name, split in kept.items() if split is not None)
        raise ValueError(
            f"{', '.join(unnamed)}: the name states no split, while that of {named} does. {_WAY_OUT} NAME is the "
            "file's name without its suffix."
        )
    return kept


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
    """Returns the entries of a raw folder sorted by name, without hidden files, texts and those of the system."""
    return sorted(entry for entry in folder.iterdir() if not _is_clutter(entry))


def clutter_note(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns a note with the number of files that `visible_entries` leaves out; no note if there are none."""
    count = sum(_is_clutter(entry) for folder in folders for entry in folder.iterdir())
    return (f"skipped {count} files that are no media: hidden, of the system, or texts",) if count else ()


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
    name = entry.name.lower()
    return name.startswith(".") or name in _CLUTTER or (name.endswith(_NO_MEDIA) and entry.is_file())


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
    """Returns a note with the number and the first names of data files that are not read; none where there are none."""
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
