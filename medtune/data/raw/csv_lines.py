"""Reads the CSV tables that come with image sets into lines, each with its place in the file for error messages."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.raw.row_errors import Place


class Line(NamedTuple):
    """One line of a CSV table; a cell that the line lacks is empty, and blanks around cells are removed."""

    place: Place
    cells: Mapping[str, str]


def csv_lines(table: Path, columns: Sequence[str], *, file: str, delimiter: str = ",") -> list[Line]:
    """Returns the lines of a CSV table with a header, which may have more columns than those that are needed.

    Args:
        table: The file to read.
        columns: The columns that are needed.
        file: The name that rejected lines state for the file.
        delimiter: The character between cells.
    """
    if not table.is_file():
        raise FileNotFoundError(f"{table}: this table is missing. Copy it from the release.")
    with table.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, delimiter=delimiter)
        try:
            names = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{table}: not a table of UTF-8 text ({error}). Take it from the release again."
            ) from error
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"{table}: wanted the columns {', '.join(columns)}, there is no {missing[0]!r}.")
    blank = dict.fromkeys(names, "")
    return [
        Line(Place(file, line), {**blank, **{name: cell.strip() for name, cell in zip(names, row, strict=False)}})
        for line, row in rows
    ]
