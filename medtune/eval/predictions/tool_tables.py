"""Reads tables of predictions: .tsv and .csv in UTF-8, and .xlsx."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

PREDICTION = "prediction"
"""The column with the model's replies, in VLMEvalKit's tables."""
TABLES = (".xlsx", ".tsv", ".csv")
"""The endings of tables' names."""


def table_rows(path: Path) -> Sequence[Mapping[str, str]]:
    """Returns the rows of a .tsv, .csv or .xlsx table by column; of several sheets the one with the predictions."""
    if path.suffix == ".xlsx":
        return _sheet(path)
    csv.field_size_limit(1 << 30)
    delimiter = "\t" if path.suffix == ".tsv" else ","
    try:
        reader = csv.reader(io.StringIO(utf8_text(path), newline=""), delimiter=delimiter, strict=True)
        names, *rows = [row for row in reader if row] or [[]]
    except csv.Error as error:
        raise ValueError(f"{path}: broken or cut-off table ({error}). Copy it again.") from error
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}, row {number}: {len(row)} cells in {len(names)} columns. Copy the table again.")
    return [dict(zip(names, row, strict=True)) for row in rows]


def cell_text(value: object) -> str:
    """Returns a value of a table or of JSON as text; "" for none."""
    if value is None:
        return ""
    # Spreadsheets turn "3" into 3, and 3 into 3.0.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def utf8_text(path: Path) -> str:
    """Returns the content of a text file."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (perhaps UTF-16). Save the file as UTF-8.") from error


def _sheet(path: Path) -> Sequence[Mapping[str, str]]:
    # openpyxl loads slowly, and only .xlsx tables need it.
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: no readable .xlsx table ({type(error).__name__}). Save it again.") from error
    tables = {
        sheet.title: [list(map(cell_text, row)) for row in sheet.iter_rows(values_only=True)]
        for sheet in book.worksheets
    }
    fit = [title for title, rows in tables.items() if rows and PREDICTION in rows[0]]
    if len(fit) != 1:
        sheets = ", ".join(f"{title} ({', '.join((rows or [[]])[0])})" for title, rows in tables.items())
        raise ValueError(
            f"{path}: wanted one sheet with a column {PREDICTION!r}, {len(fit)} have it. Sheets and columns: {sheets}."
        )
    names, *rows = tables[fit[0]]
    return [dict(zip(names, row, strict=False)) for row in rows if any(row)]
