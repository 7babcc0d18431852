"""Reads the sheets of .xlsx workbooks with openpyxl, row by row."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile, ZipFile

from medtune.data.catalog import nearest
from medtune.data.raw.rows import Row, RowSet
from medtune.data.raw.source import Place

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook
    from openpyxl.worksheet.cell_range import CellRange

# openpyxl, zipfile and the XML parser raise any of these for a broken workbook.
_BROKEN = (
    BadZipFile, zlib.error, ParseError, OSError, EOFError, LookupError, ValueError, TypeError, AttributeError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
_MARK = b"<mergeCell"
_PIECE_BYTES = 1 << 20


def read_sheet(path: Path, name: str, sheet: str | None, header_row: int | None) -> RowSet:
    """Returns the rows of a sheet; a merged cell has the value of its first in each of its rows."""
    titles = filled_sheets(path)
    if sheet is not None and sheet not in titles:
        there = ", ".join(map(repr, titles))
        raise ValueError(
            f"{path}: there is no sheet {sheet!r} with a header and rows.{nearest(sheet, titles)} They are: {there}."
        )
    if not titles:
        raise ValueError(f"{path}: no sheet has a header with a row under it. Save the table again.")
    title = sheet or titles[0]
    filled = list(islice(_from(path, title, header_row), 2))
    if len(filled) < 2 or header_row not in (None, filled[0][0]):
        raise ValueError(f"{path}: row {header_row} of the sheet {title!r} is empty or has no row under it.")
    number, header = filled[0]
    width = max(place for place, cell in enumerate(header, start=1) if cell not in (None, ""))
    columns = tuple(
        str(cell).strip() if cell not in (None, "") else f"Unnamed: {n}" for n, cell in enumerate(header[:width])
    )
    if twice := next((column for column in columns if columns.count(column) > 1), None):
        raise ValueError(f"{path}: the column {twice!r} comes {columns.count(twice)} times. Rename one of them.")
    merged = merged_cells(path, title, below=number)
    first_of = {
        (row, column): (area.min_row, area.min_col)
        for area in merged
        for row in range(area.min_row, area.max_row + 1)
        for column in range(area.min_col, area.max_col + 1)
    }

    def rows() -> Iterator[Row]:
        values: dict[tuple[int, int], object] = {}
        firsts = {*first_of.values()}
        for row, cells in islice(_from(path, title, header_row, also={row for row, _ in first_of}), 1, None):
            whole = [*cells, *[None] * (width - len(cells))]
            for column, cell in enumerate(whole, start=1):
                if (row, column) in firsts:
                    values[row, column] = cell
                elif (first := first_of.get((row, column))) is not None:
                    whole[column - 1] = values.get(first)
            yield Row(Place(name, row), dict(zip(columns, whole, strict=False)))

    others = [each for each in titles if each != title]
    notes = []
    if others:
        notes.append(f"{name}: the sheet {title!r} is read; {len(others)} other sheets with rows are not")
    if merged:
        shown = ", ".join(area.coord for area in merged[:3]) + (", ..." if len(merged) > 3 else "")
        notes.append(
            f"{name}: {len(merged)} merged cells of the sheet {title!r} ({shown}) hold their value in each of their "
            "rows"
        )
    named = f" and --sheet NAME ({', '.join(map(repr, others))})" if others else ""
    said = f"The header is taken from row {number} of the sheet {title!r}; --header ROW{named} take another."
    return RowSet(name, None, columns, rows, notes=tuple(notes), header=said)


def _from(
    path: Path, title: str, header_row: int | None, *, also: Collection[int] = ()
) -> Iterator[tuple[int, Sequence[object]]]:
    """Yields the rows of a sheet from its header on; those in `also` even where they are empty."""
    return ((number, cells) for number, cells in sheet_rows(path, title, also) if number >= (header_row or 0))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, ValueError) and str(error).startswith(f"{path}: "):
            raise
        raise ValueError(f"{path}: no readable .xlsx table ({type(error).__name__}). Save it again.") from error


@contextmanager
def open_workbook(path: Path) -> Iterator[Workbook]:
    """Opens a workbook whose sheets are read row by row, with the values that formulas had when it was saved."""
    # openpyxl loads slowly, and only .xlsx tables need it.
    import openpyxl

    # Sheets are unpacked while their rows are read.
    with _readable(path):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            yield book
        finally:
            book.close()


def sheet_rows(path: Path, title: str, also: Collection[int] = ()) -> Iterator[tuple[int, Sequence[object]]]:
    """Yields the number and the cells of each row that is not empty, or in `also`; a date is its ISO text."""
    with open_workbook(path) as book:
        for number, row in enumerate(book[title].iter_rows(values_only=True), start=1):
            cells = [_cell_value(cell) for cell in row]
            if number in also or any(cell not in (None, "") for cell in cells):
                yield number, cells


def merged_cells(path: Path, title: str, *, below: int) -> list[CellRange]:
    """Returns the merged cells of a sheet that lie below a row, in their order.

    Only a workbook that is read as a whole knows them; one without any is told from its text.
    """
    import openpyxl

    with _readable(path):
        with ZipFile(path) as packed:
            sheets = [name for name in packed.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
            if not any(_has_mark(packed, name) for name in sheets):
                return []
        found = openpyxl.load_workbook(path, data_only=True)[title].merged_cells.ranges
    return sorted((area for area in found if area.min_row > below), key=lambda area: (area.min_row, area.min_col))


def _has_mark(packed: ZipFile, name: str) -> bool:
    with packed.open(name) as file:
        end = b""
        while piece := file.read(_PIECE_BYTES):
            if _MARK in end + piece:
                return True
            end = piece[-len(_MARK) :]
    return False


def filled_sheets(path: Path) -> list[str]:
    """Returns the titles of the sheets that have a header and a row, in their order."""
    with open_workbook(path) as book:
        titles = [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]
    return [title for title in titles if sum(1 for _ in zip(range(2), sheet_rows(path, title), strict=False)) == 2]


def _cell_value(cell: object) -> object:
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell).removesuffix(" 00:00:00")
