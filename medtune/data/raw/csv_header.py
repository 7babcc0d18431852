"""Finds out how a CSV file is written: its encoding, the character between cells, its header, and a broken line."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.raw.row_errors import Place

_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 18
_LONGEST_HEADER = 1 << 20
_LONE = re.compile("[\udc80-\udcff]")


class CsvLayout(NamedTuple):
    """How a CSV file is written.

    Attributes:
        delimiter: The character between cells.
        encoding: "utf-8-sig", or "utf-16" as Excel's "Unicode text".
        columns: The names of the columns as `pandas` spells them: an empty name is "Unnamed: 0" with its place.
        skipped_lines: The lines before the header: 1 where Excel wrote "sep=;" there.
        row_bytes: The size of a row in bytes, judged by the beginning of the file.
    """

    delimiter: str
    encoding: str
    columns: tuple[str, ...]
    skipped_lines: int
    header_lines: int
    row_bytes: int


def csv_layout(path: Path) -> CsvLayout:
    """Returns how a CSV file is written, judged by its beginning."""
    with path.open("rb") as file:
        start = file.read(_SAMPLE_BYTES)
    if not start.strip():
        raise ValueError(f"{path}: the file is empty. Export the table again.")
    encoding = "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        with path.open(encoding=encoding, newline="") as text:
            first = text.readline(_LONGEST_HEADER)
            skipped = int(first.lower().startswith("sep="))
            head = text.readline(_LONGEST_HEADER) if skipped else first
            delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=head.count)
            text.seek(0)
            for _ in range(skipped):
                text.readline()
            reader = csv.reader(iter(text.readline, ""), delimiter=delimiter)
            header = next(reader, [])
            header_lines = reader.line_num
            columns = tuple(name or f"Unnamed: {place}" for place, name in enumerate(header))
            width = len(_first_row(reader))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f'{path}: no table of UTF-8 text ({error}). In Excel, save it as "CSV UTF-8".') from error
    names = Counter(name.strip() for name in columns)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{path}: the column {twice[0]!r} comes {names[twice[0]]} times. Rename one of them.")
    if width > len(columns):
        raise ValueError(
            f"{path}: the header has {len(columns)} cells, the first row {width}. Quote the cells that contain "
            f"{delimiter!r}, or name the other columns."
        )
    row_bytes = len(start) // max(1, start.count(b"\n")) + 1
    return CsvLayout(delimiter, encoding, columns, skipped, header_lines, row_bytes)


def csv_fault(path: Path, layout: CsvLayout) -> str | None:
    """Returns which line cannot be read as a row of the table and what to do; None where none is found."""
    previous = csv.field_size_limit(1 << 30)
    try:
        # Bytes that are no UTF-8 become lone surrogates, which no text file holds.
        with path.open(encoding=layout.encoding, errors="surrogateescape", newline="") as text:
            for _ in range(layout.skipped_lines):
                text.readline()
            reader = csv.reader(text, delimiter=layout.delimiter)
            line = 1 + layout.skipped_lines
            for row in reader:
                if (byte := broken_byte("".join(row))) is not None:
                    return (
                        f"line {line} holds the byte 0x{byte:02X}, which is no UTF-8. In Excel, save the file as "
                        '"CSV UTF-8", or write that line again.'
                    )
                if len(row) > len(layout.columns):
                    return (
                        f"line {line} has {len(row)} cells, the header {len(layout.columns)}. Quote the cell that "
                        f"contains {layout.delimiter!r}, or remove the cells that are too many."
                    )
                line = 1 + layout.skipped_lines + reader.line_num
    except (UnicodeDecodeError, csv.Error):
        return None
    finally:
        csv.field_size_limit(previous)
    return None


def broken_byte(text: str) -> int | None:
    r"""Returns the first byte that is no UTF-8 in a text that was read with errors="surrogateescape"; None without one.

    Example:
        >>> hex(broken_byte(b"gr\xf6n".decode(errors="surrogateescape")) or 0)
        '0xf6'
    """
    found = _LONE.search(text)
    return None if found is None else ord(found[0]) - 0xDC00


def _first_row(reader: Iterator[list[str]]) -> list[str]:
    previous = csv.field_size_limit(1 << 30)
    try:
        return next(reader, [])
    finally:
        csv.field_size_limit(previous)


class Line(NamedTuple):
    """One line of a CSV table; a cell that the line lacks is empty, and blanks around cells are removed."""

    place: Place
    cells: Mapping[str, str]


def csv_lines(table: Path, columns: Sequence[str], *, file: str, delimiter: str = ",") -> list[Line]:
    """Returns the lines of a CSV table with a header, which may have more columns than those that are needed.

    Args:
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
