"""What the readers of released files need to know about a folder before they trust it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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
    if not visible(root):
        raise ValueError(f"{root}: wanted {holds}, the folder is empty. Download the data again.")
    return root


def visible(folder: Path) -> list[Path]:
    """Returns a folder's entries sorted by name, without hidden files and an operating system's own."""
    return sorted(entry for entry in folder.iterdir() if not _is_clutter(entry))


def clutter_note(folders: Iterable[Path]) -> tuple[str, ...]:
    """Returns a note that counts the hidden files which `visible` leaves out; nothing if there are none."""
    count = sum(_is_clutter(entry) for folder in folders for entry in folder.iterdir())
    return (f"skipped {count} hidden or system files",) if count else ()


def unexpected(path: Path, *, wanted: str) -> ValueError:
    """Returns the error for a file that a release does not have."""
    return ValueError(f"{path}: unexpected file, wanted {wanted}. Move it out of the folder.")


def refuse_masks_alone(images: Path, masks: Path) -> None:
    """Refuses a folder of masks that holds one without an image of its name.

    Raises:
        ValueError: There is one.
    """
    there = {path.name for path in images.iterdir()}
    for mask in visible(masks) if masks.is_dir() else ():
        if mask.name not in there:
            raise ValueError(f"{mask}: this mask has no image in {images}. Copy the image, or remove the mask.")


def _is_clutter(entry: Path) -> bool:
    return entry.name.startswith(".") or entry.name.lower() in _CLUTTER
