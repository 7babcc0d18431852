"""What the readers of released files need to know about a folder before they trust it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from medtune.data.raw.row_errors import Place, Reject, RowError

MASK_WITHOUT_IMAGE = "there is no image for this mask. Copy the image, or remove the mask."
# What operating systems put into every folder that a person has opened.
_CLUTTER = ("thumbs.db", "desktop.ini")


def raw_folder(root: Path | None, *, holds: str) -> Path:
    """Returns `root` if it is a folder with something in it; `holds` says in words what should be there.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: No folder was given, it is a file, or it is empty.
    """
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
    """Returns a folder's entries sorted by name, without hidden files and an operating system's own."""
    return sorted(entry for entry in folder.iterdir() if not _is_clutter(entry))


def clutter_note(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns a note that counts the hidden files which `visible_entries` leaves out; nothing if there are none."""
    count = sum(_is_clutter(entry) for folder in folders for entry in folder.iterdir())
    return (f"skipped {count} hidden or system files",) if count else ()


def unexpected_file(path: Path, place: Place, *, wanted: str) -> RowError:
    """Returns the error for a file that a release does not have: it may be an image under another name."""
    return place.error(f"unexpected file, wanted {wanted}. Move it out of the folder.", media=path)


def masks_without_image(images: Path, masks: Path, *, file: str) -> tuple[Reject, ...]:
    """Returns a reject for each mask that has no image of its name, which is lost; `file` names the masks' folder."""
    there = {path.name for path in images.iterdir()}
    listed = enumerate(visible_entries(masks) if masks.is_dir() else (), start=1)
    return tuple(
        Reject(file, number, None, MASK_WITHOUT_IMAGE, images / mask.name)
        for number, mask in listed
        if mask.name not in there
    )


def _is_clutter(entry: Path) -> bool:
    return entry.name.startswith(".") or entry.name.lower() in _CLUTTER
