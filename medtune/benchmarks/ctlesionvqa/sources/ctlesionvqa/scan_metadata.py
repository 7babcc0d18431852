"""Looks up a scan's sex, age, scanner and contrast phase in the tables of scans that lie beside the questions.

The questions of version 2 leave out scanner and contrast phase, and copies by others leave out sex and age as well.
metadata/reports_and_metadata.csv and AbdomenAtlas's own tables state them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import Row

COLUMNS = ("sex", "age", "scanner", "contrast")


@dataclass(slots=True)
class Scans:
    """The cells of the tables of scans, by scan and column."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, rows: Iterable[Row]) -> None:
        """Adds the cells of a table; if several tables describe one scan, the first one counts."""
        for row in rows:
            for column in COLUMNS:
                if (scan := row.get("image_id")) and (said := row.get(column)):
                    self.cells.setdefault((intern(scan), column), intern(said))

    def get(self, row: Row, column: str) -> str:
        """Returns a cell of a row of questions or, if that is empty, of the row's scan; "" if both are empty."""
        return row.get(column) or self.cells.get((row.get("image_id"), column), "")
