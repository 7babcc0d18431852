"""Reads the sheets of .xlsx workbooks with openpyxl."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook

XLSX = ".xlsx"


@contextmanager
def open_workbook(path: Path) -> Iterator["Workbook"]:
    """Opens a workbook whose sheets are read row by row, with the values that formulas had when it was saved."""
    # openpyxl loads slowly, and only .xlsx tables need it.
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: no readable .xlsx table ({type(error).__name__}). Save it again.") from error
    try:
        yield book
    finally:
        book.close()


def sheet_rows(path: Path, title: str) -> Iterator[tuple[int, Sequence[object]]]:
    """Yields the number and the cells of each row of a sheet that is not empty; a date is its ISO text."""
    with open_workbook(path) as book:
        for number, row in enumerate(book[title].iter_rows(values_only=True), start=1):
            cells = [_plain(cell) for cell in row]
            if any(cell not in (None, "") for cell in cells):
                yield number, cells


def filled_sheets(path: Path) -> list[str]:
    """Returns the titles of the sheets that have a header and a row, in their order."""
    with open_workbook(path) as book:
        titles = [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]
    return [title for title in titles if sum(1 for _ in zip(range(2), sheet_rows(path, title), strict=False)) == 2]


def _plain(cell: object) -> object:
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell).removesuffix(" 00:00:00")
