"""Reads the rows of M3D-VQA's tables, whose columns are renamed to one spelling.

Source: the header that BAAI-DCAI/M3D, Data/process/m3d_vqa_data_generation.py writes: Image Path, Text, Question Type,
Question, Choice A to Choice D, Answer, Answer Choice. A missing choice is written as NA.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from medtune.data.raw.row_errors import Reject, RowError
from medtune.data.types import Split

CHOICES = "ABCD"
_FOLDERS = (".", "M3D-VQA", "M3D_VQA")
_SPLITS: Mapping[str, Split] = {
    "train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test", "test5k": "test",
}  # fmt: skip
_NEEDED = frozenset({"image_path", "question"})
SPELLINGS: Mapping[str, str] = {"image": "image_path", "type": "question_type", "answer_option": "answer_choice"}
"""Our name of a column by its other spellings, in small letters with underscores."""
_EMPTY = frozenset({"", "na", "nan"})
"""The texts of empty cells, in small letters. "none" is not among them, because "None" is a choice of a question."""
_LARGEST_FIELD = 1 << 24
"""The largest number of characters in a cell; the column Text may hold a report of several pages."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        file: The table's path relative to the folder.
        line: The number of the row among the rows of its table, from 1.
        values: The cells by our names of the columns.
    """

    file: str
    line: int
    values: Mapping[str, str]

    def get(self, name: str) -> str:
        """Returns the text of a column; "" if the column is missing or the cell is empty."""
        said = self.values.get(name, "").strip()
        return "" if said.lower() in _EMPTY else said

    def error(self, name: str, message: str) -> RowError:
        """Returns an error about a cell; `name` is the column's name in the release."""
        return RowError(Reject(self.file, self.line, name, message))


def question_files(root: Path) -> list[Path]:
    """Returns the tables of questions in a folder."""
    files = [file for folder in _FOLDERS for file in sorted((root / folder).glob("*.csv"))]
    return [file for file in files if set(_header(file)) >= _NEEDED]


def read_rows(root: Path, file: Path) -> Iterator[Row]:
    """Yields the rows of a table."""
    name = str(file.relative_to(root))
    for line, cells in enumerate(_cells(file), start=0):
        if line == 0:
            columns = [_ours(cell) for cell in cells]
        elif cells:
            yield Row(name, line, dict(zip(columns, cells, strict=False)))


def copied_row(cells: Mapping[str, str]) -> Row:
    """Returns a row that another tool has copied, given its cells by the column names of that tool."""
    return Row("", 0, {_ours(name): cell for name, cell in cells.items()})


def split_of(file: Path) -> Split | None:
    """Returns the split that a table's file name states; None if it states none.

    Example:
        >>> [split_of(Path(f"M3D_VQA_{name}.csv")) for name in ("yn_train", "val", "test5k", "all")]
        ['train', 'val', 'test', None]
    """
    return next((_SPLITS[word] for word in re.split(r"[^a-z0-9]+", file.stem.lower()) if word in _SPLITS), None)


def _header(file: Path) -> list[str]:
    return [_ours(cell) for cell in next(_cells(file), [])]


def _cells(file: Path) -> Iterator[list[str]]:
    csv.field_size_limit(_LARGEST_FIELD)
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            yield from csv.reader(opened)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: a damaged table ({type(error).__name__}: {error}). Download it again.") from error


def _ours(name: str) -> str:
    plain = re.sub(r"[\s_\-]+", "_", name.strip().lower())
    return SPELLINGS.get(plain, plain)
