"""Reads the JSON lists of released question files, row by row with their places."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from medtune.data.raw.row_errors import Place
from medtune.data.types import Split


class ReleasedRow(NamedTuple):
    """A row of a released file, its place for error messages, and the split that the release puts it in."""

    place: Place
    cells: Mapping[str, object]
    split: Split

    def text(self, column: str) -> str:
        """Returns a cell that has to hold a text, without surplus blanks.

        Raises:
            RowError: The column is missing, or the cell holds no text.
        """
        if column not in self.cells:
            raise self.place.error(f"there is no such column, only {', '.join(sorted(self.cells))}.", field=column)
        value = self.cells[column]
        if not isinstance(value, str) or not value.strip():
            raise self.place.error(f"wanted a text, got {json.dumps(value)[:60]}.", field=column)
        return " ".join(value.split())


def released_rows(path: Path, split: Split) -> list[ReleasedRow]:
    """Returns the rows of a JSON list of objects; a row that is no object has no cells."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: this file of the release is missing. Copy it from there.")
    try:
        listed = json.loads(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: broken JSON ({error}). Take the file from the release again.") from None
    if not isinstance(listed, list):
        raise ValueError(f"{path}: wanted a JSON list of rows, got {type(listed).__name__}.")
    return [
        ReleasedRow(Place(path.name, number), cells if isinstance(cells, dict) else {}, split)
        for number, cells in enumerate(listed, start=1)
    ]
