"""Reads the benchmark's own result files: a model's replies, and the scores and verdicts that were published with them.

    pred_*.json          the replies of a model to the questions of one video
    score_pred_*.json    the same with scores, and with the judge's verdicts on free responses

A folder may hold the files of both formats, MCQ and FREE, in any folders below it. Rows that the authors did not keep
are left out. Replies are taken whole where they were stored whole, so that medtune's parsers read the letter.

Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py and evaluate_results.py (names of files and fields).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.benchmarks.rexsonovqa.rubric import FULL_POINTS, is_kept
from medtune.benchmarks.rexsonovqa.sources.rexsonovqa import row_id
from medtune.data.types import Question
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, cell_text, json_list, read_json_text, shown_options

_REPLY = "model_prediction"
_NAMES = ("pred_*.json", "score_pred_*.json")


def result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns the kept rows of a result file or of all result files in a folder; None where the path holds none."""
    if path.is_dir():
        files = sorted(file for name in _NAMES for file in path.rglob(name))
    else:
        files = [path] if path.suffix == ".json" and _has_replies(read_json_text(path)) else []
    if not files:
        return None
    rows, left_out = list[ToolRow](), 0
    for file in files:
        for number, row in enumerate(json_list(file), start=1):
            if is_kept(row):
                rows.append(_row(row, file, f"{file}, row {number}"))
            else:
                left_out += 1
    return ToolRows(rows, {"not kept by the authors": left_out} if left_out else {})


def _has_replies(content: object) -> bool:
    return isinstance(content, list) and any(isinstance(row, dict) and _REPLY in row for row in content)


def _row(row: Mapping[str, object], file: Path, where: str) -> ToolRow:
    if _REPLY not in row:
        raise ValueError(f"{where}: wanted a field {_REPLY!r}, there are {', '.join(row)}.")
    about = row.get("inference_metadata")
    whole = about.get("raw_response") if isinstance(about, dict) else None
    reply = whole if isinstance(whole, str) else cell_text(row[_REPLY])
    fields = {name: cell_text(value) for name, value in row.items() if not isinstance(value, list | dict)}
    kind = "mcq" if fields.get("question", "").startswith("[MCQ]") else "free"
    fields["id"] = row_id(kind, file.stem.removeprefix("score_").removeprefix("pred_"), row)
    return ToolRow(fields, (reply,), shown_options(fields), where, _verdict(row, where))


def _verdict(row: Mapping[str, object], where: str) -> str | None:
    if "judge_error_type" not in row:
        return None
    score = row.get("eval_score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= FULL_POINTS:
        raise ValueError(f"{where}: wanted eval_score, 0 to {FULL_POINTS} points, got {score!r}.")
    said = {"score": score, "error_type": row["judge_error_type"], "explanation": row.get("judge_explanation")}
    return json.dumps(said)
