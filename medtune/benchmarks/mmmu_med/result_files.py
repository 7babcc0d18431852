"""Reads the result files of MMMU's own code: the replies of a model to the questions of a subject.

    output.json    a list of {"id", "question_type", "answer", "all_choices", "index2ans", "response"}

A folder may hold the files of several subjects, under any names, in folders below it. Rows of subjects that are not
medical are left out.

Source: MMMU-Benchmark/MMMU@bb0b95a, mmmu/example_outputs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.benchmarks.mmmu_med.sources.mmmu_med import SUBJECTS, named_images
from medtune.data.types import Question
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, cell_text, json_list, read_json_text

_REPLY = "response"
_FIELDS = ("id", "question_type", _REPLY)


def result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns the rows of a result file or of all result files in a folder; None where the path holds none."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path] if path.suffix == ".json" else []
    files = [file for file in files if _is_result(read_json_text(file))]
    if not files:
        return None
    rows, left_out = list[ToolRow](), 0
    for file in files:
        for number, row in enumerate(json_list(file), start=1):
            if any(subject in str(row.get("id")) for subject in SUBJECTS):
                rows.append(_row(row, f"{file}, row {number}"))
            else:
                left_out += 1
    return ToolRows(rows, {"of subjects that are not medical": left_out} if left_out else {})


def _is_result(content: object) -> bool:
    return isinstance(content, list) and any(
        isinstance(row, dict) and all(name in row for name in _FIELDS) for row in content
    )


def _row(row: Mapping[str, object], where: str) -> ToolRow:
    if lacking := [name for name in _FIELDS if name not in row]:
        raise ValueError(f"{where}: wanted a field {lacking[0]!r}, there are {', '.join(row)}.")
    listed = row.get("index2ans")
    options = tuple(named_images(str(option)) for option in listed.values()) if isinstance(listed, Mapping) else ()
    fields = {name: cell_text(value) for name, value in row.items() if not isinstance(value, list | dict)}
    return ToolRow(fields, (cell_text(row[_REPLY]),), options, where)
