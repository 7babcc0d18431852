"""M3D-VQA's tables: rows of text under one spelling of the columns.

Source: the header that BAAI-DCAI/M3D, Data/process/m3d_vqa_data_generation.py writes: Image Path, Text, Question Type,
Question, Choice A to Choice D, Answer, Answer Choice; a choice that is missing is written NA.
"""

from __future__ import annotations

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
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "test5k": "test",
}
_NEEDED = frozenset({"image_path", "question"})
SPELLINGS: Mapping[str, str] = {"image": "image_path", "type": "question_type", "answer_option": "answer_choice"}
"""Other spellings of a column, in small letters with underscores, and ours."""
_EMPTY = frozenset({"", "na", "nan"})
"""Cells that stand for nothing; "None" is not among them, because it is a choice."""
_LARGEST_FIELD = 1 << 24
"""Characters; a report of several pages stands in the column Text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, by our names; `line` is where it stands among the rows, from 1."""

    file: str
    line: int
    values: Mapping[str, str]

    def get(self, name: str) -> str:
        """Returns the text of a column, "" where it is missing or empty."""
        said = self.values.get(name, "").strip()
        return "" if said.lower() in _EMPTY else said

    def error(self, name: str, message: str) -> RowError:
        """Returns the error for a column, by the release's name."""
        return RowError(Reject(self.file, self.line, name, message))


def question_files(root: Path) -> list[Path]:
    """Returns the tables of questions in a folder.

    Raises:
        ValueError: A file is damaged.
    """
    files = [file for folder in _FOLDERS for file in sorted((root / folder).glob("*.csv"))]
    return [file for file in files if set(_header(file)) >= _NEEDED]


def read_rows(root: Path, file: Path) -> Iterator[Row]:
    """Yields the rows of a table.

    Raises:
        ValueError: The file is damaged.
    """
    name = str(file.relative_to(root))
    for line, cells in enumerate(_cells(file), start=0):
        if line == 0:
            columns = [_ours(cell) for cell in cells]
        elif cells:
            yield Row(name, line, dict(zip(columns, cells, strict=False)))


def copied_row(cells: Mapping[str, str]) -> Row:
    """Returns another tool's copy of a row, by its own columns' names."""
    return Row("", 0, {_ours(name): cell for name, cell in cells.items()})


def split_of(file: Path) -> Split | None:
    """Returns the split that a table's name states.

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
    """Returns a column's name in small letters with underscores, under our spelling."""
    plain = re.sub(r"[\s_\-]+", "_", name.strip().lower())
    return SPELLINGS.get(plain, plain)
