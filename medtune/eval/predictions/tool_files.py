"""Reads the prediction files of other evaluation tools: the samples of lmms-eval and the tables of VLMEvalKit.

lmms-eval (`--log_samples`) writes JSON lines with doc_id, doc (the row without its media), target, resps and
filtered_resps. VLMEvalKit writes a table .xlsx, .tsv, .csv or .json with the benchmark's columns and `prediction`.

Source: EvolvingLMMs-Lab/lmms-eval and open-compass/VLMEvalKit, only for the names of fields and columns.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

PREDICTION = "prediction"
TABLES = (".xlsx", ".tsv", ".csv")


class ToolRow(NamedTuple):
    """One row of another tool's prediction file.

    Attributes:
        fields: The row's fields as text.
        replies: The model's replies, one for each repeat.
        options: The options in the order that the tool showed; empty if the file does not state it.
        where: The file and line, for messages.
    """

    fields: Mapping[str, str]
    replies: tuple[str, ...]
    options: tuple[str, ...]
    where: str


def read_tool_rows(path: Path) -> list[ToolRow] | None:
    """Returns the rows of another tool's prediction file; None for a file in medtune's own format.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A table cannot be read, or has no column of predictions.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no prediction file {path}")
    if path.suffix in TABLES:
        return [_table_row(fields, f"{path}, row {number}") for number, fields in enumerate(_table(path), start=2)]
    found = _objects(path)
    if not found or not any(PREDICTION in each or "resps" in each for each in found):
        return None
    return [_object_row(each, f"{path}, row {number}") for number, each in enumerate(found, start=1)]


def _objects(path: Path) -> list[Mapping[str, object]]:
    """Returns the objects in a JSON list or in JSON lines; an empty list if the file is neither."""
    text = path.read_text("utf-8-sig")
    try:
        lines = [text] if path.suffix == ".json" else [line for line in text.splitlines() if line.strip()]
        read = [json.loads(line) for line in lines]
        whole = read[0] if path.suffix == ".json" else read
    except ValueError:
        return []
    return [each for each in whole if isinstance(each, dict)] if isinstance(whole, list) else []


def _object_row(each: Mapping[str, object], where: str) -> ToolRow:
    if "resps" not in each:
        return _table_row({name: _text(value) for name, value in each.items()}, where)
    said = each.get("doc")
    doc = said if isinstance(said, dict) else {}
    fields = {name: _text(value) for name, value in each.items() if not isinstance(value, list | dict)}
    fields |= {str(name): _text(value) for name, value in doc.items() if not isinstance(value, list | dict)}
    # The raw replies are used, because medtune's own parsers remove reasoning in tags.
    replies = tuple(map(str, _flat(each["resps"])))
    if not replies:
        raise ValueError(f"{where}: wanted a reply in 'resps', it is empty. Leave the line out for a missing answer.")
    listed: list[object] = next((doc[name] for name in ("options", "choices") if isinstance(doc.get(name), list)), [])
    return ToolRow(fields, replies, tuple(map(str, listed)) or _lettered(fields), where)


def _flat(value: object) -> Iterable[object]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    elif value is not None:
        yield value


def _table_row(fields: Mapping[str, str], where: str) -> ToolRow:
    if PREDICTION not in fields:
        raise ValueError(f"{where}: wanted a column {PREDICTION!r}, there are {', '.join(fields)}.")
    return ToolRow(fields, (fields[PREDICTION],), _lettered(fields), where)


def _lettered(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the options of VLMEvalKit's columns A, B, C, ..."""
    return tuple(takewhile(bool, (fields.get(letter, "") for letter in ascii_uppercase)))


def _table(path: Path) -> Sequence[Mapping[str, str]]:
    if path.suffix != ".xlsx":
        with path.open(encoding="utf-8-sig", newline="") as file:
            csv.field_size_limit(1 << 30)
            return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    # openpyxl loads slowly, and only .xlsx tables need it.
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        sheet = openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0]
    except (InvalidFileException, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: no readable .xlsx table ({type(error).__name__}). Save it again.") from error
    rows = sheet.iter_rows(values_only=True)
    names = [_text(name) for name in next(rows, ())]
    return [dict(zip(names, map(_text, row), strict=False)) for row in rows]


def _text(value: object) -> str:
    if value is None:
        return ""
    # Spreadsheets turn "3" into 3, and 3 into 3.0.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
