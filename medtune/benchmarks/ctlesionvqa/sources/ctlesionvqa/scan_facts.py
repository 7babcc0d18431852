"""Finds facts about scans elsewhere in the release than in the tables of questions.

The paper breaks sensitivity down by the size of an organ's largest lesion and its difference from the organ in HU
(section 4.4), but no column of the question tables states them. They are taken from the answers about the same scan and
organ ("largest lesion diameter", "tumor organ HU difference") and from the table of metadata of AbdomenAtlas.

The questions of version 2 leave out scanner and contrast phase, and copies by others leave out sex and age as well.
metadata/reports_and_metadata.csv and AbdomenAtlas's own tables state them.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import cell, number_and_unit
from medtune.benchmarks.facets import contrast_bin, diameter_bin
from medtune.data.raw.rows import Row

_DIAMETER, _DIFFERENCE = "largest lesion diameter", "tumor organ HU difference"
_COLUMN = re.compile(r"largest (\w+) lesion diameter \(cm\)", re.I)
_ORGANS = {"pancreatic": "pancreas", "hepatic": "liver", "renal": "kidney"}
PATIENT_CELLS = ("sex", "age", "scanner", "contrast")


@dataclass(slots=True)
class LesionSizes:
    """The size and contrast of the largest lesion of each organ."""

    diameters_cm: dict[tuple[str, str], float] = field(default_factory=dict)
    # The difference in HU between lesion and organ, by scan and organ.
    differences_hu: dict[tuple[str, str], float] = field(default_factory=dict)

    def add_answer(self, scan: str, organ: str, subtype: str, answer: str) -> None:
        """Adds the value from a free-text answer if its subtype states a diameter or a difference in HU."""
        if subtype not in (_DIAMETER, _DIFFERENCE):
            return
        found = number_and_unit(answer)
        if found is None:
            return
        if subtype == _DIAMETER:
            self.diameters_cm[scan, organ] = found.value / (10 if found.unit == "mm" else 1)
        else:
            self.differences_hu[scan, organ] = found.value

    def add_table(self, file: Path) -> None:
        """Adds the diameters from AbdomenAtlas's table of metadata; other tables state none and are ignored."""
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            names = reader.fieldnames or []
            columns = {name: found[1].lower() for name in names if (found := _COLUMN.fullmatch(name.strip()))}
            scans = [name for name in names if name.strip().lower().replace("_", " ") == "bdmap id"]
            for row in reader if scans and columns else ():
                for name, organ in columns.items():
                    found_here = number_and_unit(row[name] or "")
                    if found_here is not None and found_here.value > 0:
                        key = row[scans[0]].strip(), _ORGANS.get(organ, organ)
                        self.diameters_cm.setdefault(key, found_here.value)

    def bins(self, scan: str, organ: str) -> dict[str, str]:
        """Returns the facets "diameter" and "hu_contrast" of an organ, each only if it is known.

        The left and the right organ of a pair count as one organ.
        """
        keys = (scan, organ), (scan, organ.rpartition(" ")[2])
        diameter = next((self.diameters_cm[key] for key in keys if key in self.diameters_cm), None)
        difference = next((self.differences_hu[key] for key in keys if key in self.differences_hu), None)
        found = {} if diameter is None else {"diameter": diameter_bin(diameter)}
        return found if difference is None else found | {"hu_contrast": contrast_bin(difference)}


@dataclass(slots=True)
class Scans:
    """The cells of the tables of scans, by scan and column."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, rows: Iterable[Row]) -> None:
        """Adds the cells of a table; if several tables describe one scan, the first one counts."""
        for row in rows:
            for column in PATIENT_CELLS:
                if (scan := cell(row, "image_id")) and (said := cell(row, column)):
                    self.cells.setdefault((intern(scan), column), intern(said))

    def get(self, row: Row, column: str) -> str:
        """Returns a cell of a row of questions or, if that is empty, of the row's scan; "" if both are empty."""
        return cell(row, column) or self.cells.get((cell(row, "image_id"), column), "")
