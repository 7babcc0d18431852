"""Reads the official score files of ReXSonoVQA, which tests compare with; medtune itself reads none."""

from collections.abc import Iterable, Mapping

from medtune.benchmarks.facets import duration_bin
from medtune.benchmarks.rexsonovqa.rubric import UNKNOWN_ERROR, ScoredItem, is_kept, question_type


def read_scored(rows: Iterable[Mapping[str, object]]) -> list[ScoredItem]:
    """Returns the kept rows of official score files, or of rows with the same keys.

    Args:
        rows: With "question", "question_type", "duration" (s), "eval_score", "eval_max_score" and, for a free
            response, "judge_error_type".

    Raises:
        ValueError: A score, maximum or duration is missing or no number.
    """
    found = []
    for row in rows:
        if is_kept(row):
            is_mcq = str(row.get("question", "")).startswith("[MCQ]") or row.get("eval_max_score") == 1
            item = ScoredItem(
                is_mcq=is_mcq,
                question_type=question_type(str(row.get("question_type", "Unknown"))),
                duration=duration_bin(_number(row, "duration")),
                score=_number(row, "eval_score"),
                error_type=None if is_mcq else str(row.get("judge_error_type", UNKNOWN_ERROR)),
            )
            found.append(item)
    return found


def official_score_of_stored(stored: str | None, key: str) -> int:
    """Returns 1 where the first character of what was stored as the answer is the key's, else 0.

    Meant for an extracted letter; where raw replies are stored, "Answer: C" counts as A.

    Args:
        stored: The letter, or whatever stands in its place; None and blanks are wrong.
        key: The correct letter; only its first character counts.

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (evaluate_file).
    """
    said = (stored or "").strip()[:1].upper()
    return int(said == key.strip()[:1].upper())


def _number(row: Mapping[str, object], name: str) -> float:
    value = row.get(name)
    if not isinstance(value, int | float):
        raise ValueError(f"a scored row needs a number as {name!r}, got {value!r}; was it judged?")
    return value
