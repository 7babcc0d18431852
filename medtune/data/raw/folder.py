"""Checks a folder of raw files before its files are read: missing, empty, unexpected or hidden entries."""

from collections.abc import Iterable
from pathlib import Path

from medtune.data.raw.row_errors import Place, Reject, RowError

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
