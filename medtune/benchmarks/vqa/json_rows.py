"""Reads files with a JSON list of objects, or with one JSON object a line, row by row.

Each row keeps the types of its own cells. A broken row is an error of this row alone, which names its line.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from medtune.benchmarks.vqa.annotation_tools import check_no_export
from medtune.data.json_text import json_value
from medtune.data.raw.csv_header import broken_byte
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Place, RowError

LINES = (".jsonl", ".ndjson")
JSON_SUFFIXES = (*LINES, ".json")


def json_rows(path: Path, *, file: str) -> Iterator[Row | RowError]:
    """Yields the objects of a file, and an error for each line or element that is broken or no object.

    A file of JSON lines is read line by line, a JSON list as a whole.

    Args:
        file: The name of the file in places, relative to the data set's folder.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Copy it beside the others.")
    if not path.stat().st_size:
        raise ValueError(f"{path}: the file is empty. Export it again.")
    try:
        if path.suffix.lower() in LINES:
            with path.open(encoding="utf-8-sig", errors="surrogateescape") as text:
                for number, line in enumerate(text, start=1):
                    if (byte := broken_byte(line)) is not None:
                        raise ValueError(f"line {number} holds the byte 0x{byte:02X}; write that line as UTF-8")
                    if line.strip():
                        row = _line(Place(file, number), line)
                        if number == 1 and isinstance(row, Row):
                            check_no_export(row.values, path)
                        yield row
            return
        listed = json_value(path.read_text("utf-8-sig"))
        check_no_export(listed[0] if isinstance(listed, list) and listed else listed, path)
    except ValueError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}). Take the file again.") from None
    if not isinstance(listed, list):
        raise ValueError(f"{path}: wanted a JSON list of rows, got {type(listed).__name__}.")
    for number, values in enumerate(listed, start=1):
        yield _row(Place(file, number), values)


def _line(place: Place, line: str) -> Row | RowError:
    try:
        return _row(place, json_value(line))
    except json.JSONDecodeError as error:
        return place.error(f"broken JSON ({error.msg}, column {error.colno}).")


def _row(place: Place, values: object) -> Row | RowError:
    if not isinstance(values, dict):
        return place.error(f"wanted a JSON object, got {type(values).__name__}.")
    return Row(place, values)
