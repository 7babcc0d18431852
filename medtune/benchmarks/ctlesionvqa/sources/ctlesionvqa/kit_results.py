"""Reads the results that version 2's evaluation kit writes: {"results": [{"qid": ..., "raw_output": ..., ...}]}.

A result names the row of the released table, but not whether it was asked as multiple choice or as free text.

Source: Schuture/DeepTumorVQA at 1df7460, eval/vqa_evaluator.py, eval/agent_evaluator.py and eval/metrics.py (names of
fields, and that pred_answer counts before raw_output).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.data.types import Question
from medtune.eval.predictions.tool_files import ToolRow, ToolRows, cell_text, read_json_text

_REPLIES = ("pred_answer", "raw_output")


def result_rows(path: Path, questions: Sequence[Question]) -> ToolRows | None:
    """Returns the rows of a result file of the evaluation kit; None for another file."""
    content = read_json_text(path) if path.suffix == ".json" and path.is_file() else None
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, list):
        return None
    formats = sorted({question.facets["format"] for question in questions})
    if len(formats) > 1:
        raise ValueError(
            f"{path}: the file does not say which format its results answer. Give one of "
            f"{' or '.join(f'--only format={each}' for each in formats)}."
        )
    return ToolRows([_row(each, formats[0], f"{path}, result {n}") for n, each in enumerate(results, start=1)], {})


def row_id(qid: str, kind: str) -> str:
    """Returns the id of the question that a released row with a qid asks in a format."""
    return f"{qid} {kind}"


def _row(result: object, kind: str, where: str) -> ToolRow:
    if not isinstance(result, Mapping) or "qid" not in result or not any(name in result for name in _REPLIES):
        raise ValueError(f"{where}: wanted an object with qid and {' or '.join(_REPLIES)}, got {result!r:.80}.")
    fields = {str(name): cell_text(value) for name, value in result.items() if not isinstance(value, list | dict)}
    reply = next((fields[name] for name in _REPLIES if fields.get(name)), "")
    # Options are not in the file: a letter is one of the released order.
    return ToolRow(fields | {"qid": row_id(fields["qid"], kind)}, (reply,), (), where)
