"""Finds the prepared folder of a run that was moved, or whose data were."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from medtune.data.json_text import json_value
from medtune.data.prepared.manifest import MANIFEST

ABOVE = 3
"""How many folders above the run, and above its data, are searched."""
MOST_LOOKED_AT = 200
"""The largest number of prepared folders that are looked at (our own choice; a manifest is read in a millisecond)."""


def found_data(data_root: Path, *, run: Path, data_hash: str = "", questions: Path | None = None) -> Path:
    """Returns the path of a run's prepared folder.

    It is the one that the user names, or the one of the recipe, from the working directory or from a folder above the
    run, or else a folder with the run's data beside the run or where the data were. If there is none, it is that of
    the recipe.

    Args:
        data_root: The folder that the recipe names.
        data_hash: The hash of the data that the run was asked; "" if it is not known.
        questions: The folder that the user names.
    """
    if questions is not None:
        return questions
    places = [data_root, *(folder / data_root for folder in run.resolve().parents)]
    there = [place for place in places if place.is_dir()]
    if not data_hash:
        return there[0] if there else data_root
    if equal := next((place for place in there if _hash_in(place) == data_hash), None):
        return equal
    beside = (place for place in islice(_prepared_beside(run, data_root), MOST_LOOKED_AT))
    equal = next((place for place in beside if _hash_in(place) == data_hash), None)
    return equal or (there[0] if there else data_root)


def _prepared_beside(run: Path, data_root: Path) -> Iterator[Path]:
    above = [*run.resolve().parents[:ABOVE], *data_root.resolve().parents[:ABOVE]]
    for folder in dict.fromkeys(above):
        # The root of the file system, and a folder of many users' folders, are not searched.
        if len(folder.parts) > 2 and folder.is_dir():
            for pattern in ("*", "prepared/*"):
                yield from (manifest.parent for manifest in sorted(folder.glob(f"{pattern}/{MANIFEST}")))


def _hash_in(folder: Path) -> str | None:
    try:
        said = json_value((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return said.get("data_hash") if isinstance(said, dict) else None
