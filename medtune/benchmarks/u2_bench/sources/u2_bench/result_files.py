"""Reads the replies that the benchmark's own kit writes: JSON lines with `id` and `response`, for one set at a time.

`id` is the index of a row in the set's released table, or its number from 0. The lines hold no true answers, so the
table itself (*.tsv) has to lie beside the file, as the kit's evaluation wants it too; lines that a user has extended by
the table's columns (class, measurement, ...) need no table.

Source: dolphin-sound/u2-bench-evalkit, vlmeval/silicon_test/batch_test.py and vlmeval/eval_func/cla_eval.py (names of
fields and how replies are joined with a table).
"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.benchmarks.u2_bench.sources.u2_bench import COLUMNS
from medtune.data.types import Question
from medtune.eval.predictions.tool_files import ToolRow, ToolRows
from medtune.eval.predictions.tool_tables import cell_text, utf8_text

_REPLY = "response"


def result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns the rows of a file of replies, joined with the released table beside it; None for another file."""
    if path.suffix != ".jsonl" or not path.is_file():
        return None
    lines = [line for line in utf8_text(path).split("\n") if line.strip()]
    if not lines or f'"{_REPLY}"' not in lines[0]:
        return None
    table = _table_beside(path)
    return ToolRows([_row(line, table, f"{path}, line {number}") for number, line in enumerate(lines, start=1)], {})


def _row(line: str, table: Mapping[str, Mapping[str, str]], where: str) -> ToolRow:
    try:
        said = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where}: broken or cut-off JSON. Copy the file again.") from error
    if not isinstance(said, dict) or _REPLY not in said:
        raise ValueError(f"{where}: wanted an object with id and {_REPLY}, got {line:.80}.")
    fields = {name: cell_text(value) for name, value in said.items() if not isinstance(value, list | dict)}
    if table and fields.get("id") not in table:
        raise ValueError(f"{where}: its id {fields.get('id')!r} is no index of the table beside the file.")
    return ToolRow({**table.get(fields.get("id", ""), {}), **fields}, (fields[_REPLY],), (), where)


def _table_beside(path: Path) -> Mapping[str, Mapping[str, str]]:
    tables = sorted(path.parent.glob("*.tsv"))
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise ValueError(f"{path}: wanted one released table beside it, the one it answers; there are {names}.")
    if not tables:
        return {}
    csv.field_size_limit(1 << 30)
    left_out = (None, *COLUMNS["image"], "seg_data")
    # A byte that is no UTF-8 is in no column that is compared.
    with tables[0].open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = [
            {name: cell for name, cell in row.items() if name not in left_out and isinstance(cell, str)}
            for row in csv.DictReader(file, delimiter="\t")
        ]
    return {row.get("index", str(number)): row for number, row in enumerate(rows)}
