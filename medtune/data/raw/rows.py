"""The rows of a table, and the tables of a file or a hub data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from medtune.data.raw.source import Place


class Row(NamedTuple):
    """One row of a table, and its place for error messages."""

    place: Place  # The file, or the split of a hub data set, and the row.
    # The cells by column: text, numbers, lists, mappings or None. A class label is its name. An image or video is
    # {"path": ..., "bytes": ...}, of which one may be None.
    values: Mapping[str, object]

    def text(self, column: str) -> str:
        """Returns a cell that has to hold a text, without the blanks around it."""
        said = self.values.get(column)
        if said is None or (isinstance(said, str) and not said.strip()):
            raise self.place.error("wanted a text, the cell is empty", field=column, cell=said)
        if not isinstance(said, str):
            raise self.place.error("wanted a text", field=column, cell=said)
        return said.strip()


@dataclass(frozen=True, slots=True)
class RowSet:
    name: str  # The name of the file relative to its folder, or of the split.
    split: str | None  # The name that the data set gives to the split; None for a file.
    columns: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]  # Reads the rows from the beginning, each time it is called.
    # The names of the classes of each column that holds class labels.
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What had to be told from the file itself: its code page, or its sheet.
    header: str = ""  # Where the header was found, and how another one is named; "" where there is no choice.
