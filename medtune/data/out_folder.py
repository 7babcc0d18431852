"""Checks a path that the user names for a folder of results."""

from pathlib import Path


def out_folder(folder: Path) -> Path:
    """Returns the path, at which a folder is or can be made."""
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise NotADirectoryError(
                    f"{path}: this is a file; wanted a folder, which is made if it is missing. Name another folder."
                )
            break
    return folder
