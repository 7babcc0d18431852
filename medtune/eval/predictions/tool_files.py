"""Reads the prediction files of other tools: samples of lmms-eval, tables of VLMEvalKit, results of ms-swift.

lmms-eval (`--log_samples`) writes JSON lines with doc_id, target, input (the prompt) and filtered_resps; `resps` is
left out where it says the same, and older versions also have `doc`, the row without its media. VLMEvalKit writes a
table .xlsx, .tsv or .json with the benchmark's columns and `prediction`, and a .pkl where that fails. A .pkl is never
opened. ms-swift (`swift infer --result_path`) writes JSON lines with response, labels (the true answer) and messages.

Source: EvolvingLMMs-Lab/lmms-eval at 75571cf (loggers/evaluation_tracker.py, evaluator.py), open-compass/VLMEvalKit at
e8e78f0 (smp/file.py, inference.py) and modelscope/ms-swift (swift/llm/infer/infer.py), only for the names of fields and
columns.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

from medtune.data.json_text import json_value
from medtune.data.raw.lettered_options import split_options
from medtune.data.raw.table_rows import XLSX
from medtune.data.raw.workbooks import open_workbook

PREDICTION = "prediction"
"""The column with the model's replies, in VLMEvalKit's tables."""
TABLES = (".xlsx", ".tsv", ".csv")
"""The endings of tables' names."""

PICKLE = ".pkl"
TEXTS = ("question", "input", "prompt", "query", "problem", "instruction", "text_content")
"""The fields that may hold the question, or the whole prompt with the question in it."""
_REPLIES = ("resps", "filtered_resps")


def table_rows(path: Path) -> Sequence[Mapping[str, str]]:
    """Returns the rows of a .tsv, .csv or .xlsx table by column; of several sheets the one with the predictions."""
    if path.suffix == XLSX:
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
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (perhaps UTF-16). Save the file as UTF-8.") from error


def _sheet(path: Path) -> Sequence[Mapping[str, str]]:
    with open_workbook(path) as book:
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


class ToolRow(NamedTuple):
    """One row of another tool's prediction file."""

    fields: Mapping[str, str]
    replies: tuple[str, ...]  # The model's replies, one for each repeat.
    options: tuple[str, ...]  # The options in the order that the tool showed; empty if the file does not state it.
    where: str  # The file and line, for messages.
    verdict: str | None = None  # A judge's reply about the model's reply; None if there is none.


class ToolRows(NamedTuple):
    rows: Sequence[ToolRow]
    left_out: Mapping[str, int]  # The number of rows that were left out on purpose, by reason.


def read_tool_rows(path: Path) -> list[ToolRow] | None:
    """Returns the rows of another tool's prediction file; None for a file in medtune's own format."""
    if not path.is_file():
        raise FileNotFoundError(f"no prediction file {path}")
    if path.suffix == PICKLE:
        raise ValueError(
            f"{path}: a pickle can run any code when it is opened, so medtune does not open it. Write it as a table "
            f"where it was made: python -c \"import pandas; pandas.read_pickle('{path.name}')"
            f".to_csv('{path.stem}.tsv', sep='\\t', index=False)\", and score {path.stem}.tsv."
        )
    if path.suffix in TABLES:
        rows = [table_row(fields, f"{path}, row {number}") for number, fields in enumerate(table_rows(path), start=2)]
        if not rows:
            raise ValueError(
                f"{path}: the table has no rows. Score one with a column {PREDICTION!r} and replies in it."
            )
        return rows
    is_list = path.suffix == ".json" and not _begins_with_a_row(path)
    found = json_list(path) if is_list else _json_lines(path)
    if not any(map(_is_tools, found)):
        if is_list:
            raise ValueError(f"{path}: no row has a field {PREDICTION!r} or {_REPLIES[1]!r}. Is it a prediction file?")
        return None
    return [_object_row(each, f"{path}, row {number}") for number, each in enumerate(found, start=1)]


def safe_twin(path: Path) -> Path:
    """Returns the table of the same name that lies beside a pickle; the path itself if it is none, or has no table."""
    twins = (path.with_suffix(suffix) for suffix in (*TABLES, ".json"))
    return next((twin for twin in twins if twin.is_file()), path) if path.suffix == PICKLE else path


def json_list(path: Path) -> list[Mapping[str, object]]:
    found = read_json_text(path)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        entries = f"an object with {', '.join(map(str, found))}" if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{path}: wanted a JSON list of rows, got {entries}.")
    return found


def read_json_text(path: Path) -> object:
    try:
        return json_value(utf8_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: broken or cut-off JSON (line {error.lineno}: {error.msg}). Copy it again."
        ) from error


def table_row(fields: Mapping[str, str], where: str) -> ToolRow:
    """Returns a row with a reply in the column "prediction", and with the options of VLMEvalKit's columns A, B, ..."""
    if PREDICTION not in fields:
        raise ValueError(f"{where}: wanted a column {PREDICTION!r}, there are {', '.join(fields)}.")
    return ToolRow(fields, (fields[PREDICTION],), shown_options(fields), where)


def shown_options(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the options of the columns A, B, C, ..., or those after letters in the question or prompt."""
    lettered = tuple(takewhile(bool, (fields.get(letter, "") for letter in ascii_uppercase)))
    if lettered:
        return lettered
    inside = (split_options(fields[name]) for name in TEXTS if name in fields)
    return next((found.options for found in inside if found), ())


def _is_tools(each: Mapping[str, object]) -> bool:
    return PREDICTION in each or any(name in each for name in _REPLIES) or _is_swift(each)


def _is_swift(each: Mapping[str, object]) -> bool:
    return isinstance(each.get("response"), str) and isinstance(each.get("messages"), list)


def _begins_with_a_row(path: Path) -> bool:
    try:
        first = json_value(utf8_text(path).lstrip().partition("\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and ("question_id" in first or _is_tools(first))


def _json_lines(path: Path) -> list[Mapping[str, object]]:
    found: list[Mapping[str, object]] = []
    for number, line in enumerate(utf8_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            each = json_value(line)
        except ValueError as error:
            if not any(map(_is_tools, found)):
                return []
            raise ValueError(f"{path}, line {number}: broken or cut-off JSON. Copy the file again.") from error
        if isinstance(each, dict):
            found.append(each)
    return found


def _object_row(each: Mapping[str, object], where: str) -> ToolRow:
    if _is_swift(each):
        return _swift_row(each, where)
    said = each.get("doc")
    doc = said if isinstance(said, dict) else {}
    fields = {name: cell_text(value) for name, value in each.items() if not isinstance(value, list | dict)}
    fields |= {str(name): cell_text(value) for name, value in doc.items() if not isinstance(value, list | dict)}
    # The raw replies are used where both are there, because medtune's own parsers remove reasoning in tags.
    name = next((name for name in _REPLIES if name in each), None)
    if name is None:
        return table_row({name: cell_text(value) for name, value in each.items()}, where)
    replies = tuple(map(str, _flat(each[name])))
    if not replies:
        raise ValueError(f"{where}: wanted a reply in {name!r}, it is empty. Leave the line out for a missing answer.")
    if len(replies) % 2 == 0 and all(flag in ("True", "False") for flag in replies[1::2]):
        raise ValueError(
            f"{where}: {name!r} holds log-likelihoods of options, not replies. Have the tool generate (generate_until)."
        )
    listed: list[object] = next((doc[name] for name in ("options", "choices") if isinstance(doc.get(name), list)), [])
    return ToolRow(fields, replies, tuple(map(str, listed)) or shown_options(fields), where)


def _swift_row(each: Mapping[str, object], where: str) -> ToolRow:
    messages = each["messages"]
    turns = [turn for turn in messages if isinstance(turn, dict)] if isinstance(messages, list) else []
    asked = [cell_text(turn.get("content")) for turn in turns if turn.get("role") == "user"]
    fields = {"input": asked[-1] if asked else "", "answer": cell_text(each.get("labels"))}
    return ToolRow(fields, (cell_text(each["response"]),), shown_options(fields), where)


def _flat(value: object) -> Iterable[object]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    elif value is not None:
        yield value
