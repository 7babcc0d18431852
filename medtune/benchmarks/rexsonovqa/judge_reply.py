"""Reads score and error type out of a judge's reply, as the official code does and without its traps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from medtune.eval.scoring.think_blocks import without_thinking

ErrorType = Literal["none", "wrong_visual_evidence", "wrong_conclusion", "both_fail", "unknown"]
_FENCE = re.compile(r"^```\w*\s*|\s*```$")
_BY_NAME: dict[object, ErrorType] = {
    "none": "none",
    "wrong_visual_evidence": "wrong_visual_evidence",
    "wrong_conclusion": "wrong_conclusion",
    "both_fail": "both_fail",
}


@dataclass(frozen=True, slots=True)
class OfficialVerdict:
    """What the official code makes of a judge's reply, with whatever JSON type it had there."""

    score: object
    error_type: object


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict.

    Attributes:
        score: 2 right, 1 one of evidence and conclusion wrong, 0 both wrong.
        error_type: "unknown" where 1 point does not say for which error.
    """

    score: Literal[0, 1, 2]
    error_type: ErrorType


def official_verdict(reply: str | None) -> OfficialVerdict:
    """Returns the verdict that the official code reads.

    Its traps are kept: what cannot be read (a plain fence, a list) is 0 points with error "none", so a failed call to
    the judge looks like a wrong answer; a score in quotes stays a string; error "none" becomes "wrong_conclusion" for
    1 point and "both_fail" for 0 or a missing score, which counts as 0.

    Args:
        reply: What the judge said; None where it said nothing.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (LLMJudge.evaluate_free_response).
    """
    text = (reply or "").strip()
    said = _json(text[7:-3] if text.startswith("```json") else text)
    if not isinstance(said, dict):
        return OfficialVerdict(0, "none")
    score, error = said.get("score", 0), said.get("error_type", "none")
    if error == "none" and score in (0, 1):
        error = "wrong_conclusion" if score == 1 else "both_fail"
    return OfficialVerdict(score, error)


def robust_verdict(reply: str | None) -> Verdict | None:
    """Returns the verdict, or None where there is none: ask the judge again, do not count it as wrong.

    Takes any fence, text around one JSON object, a list of one object, and scores written "1" or 1.0. 2 points have
    no error, 0 points without a type are "both_fail", 1 point without a single error is "unknown".

    Example:
        >>> robust_verdict('The verdict: {"score": "2", "error_type": null}')
        Verdict(score=2, error_type='none')
        >>> robust_verdict("not json")
    """
    said = _object(_FENCE.sub("", without_thinking(reply or "")))
    score = _points(said.get("score")) if said else None
    if said is None or score is None:
        return None
    named = said.get("error_type")
    error = _BY_NAME.get(named, "unknown") if isinstance(named, str) else "unknown"
    if score == 2:
        error = "none"
    elif score == 0 and error in ("none", "unknown"):
        error = "both_fail"
    elif score == 1 and error in ("none", "both_fail"):
        error = "unknown"
    return Verdict(score, error)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(text: str) -> Mapping[str, object] | None:
    said = _json(text)
    if said is None:
        start, end = text.find("{"), text.rfind("}")
        said = _json(text[start : end + 1]) if 0 <= start < end else None
    if isinstance(said, list) and len(said) == 1:
        said = said[0]
    return said if isinstance(said, dict) else None


def _points(value: object) -> Literal[0, 1, 2] | None:
    points: dict[object, Literal[0, 1, 2]] = {0: 0, 1: 1, 2: 2, "0": 0, "1": 1, "2": 2}
    is_readable = isinstance(value, int | float | str) and not isinstance(value, bool)
    return points.get(value.strip() if isinstance(value, str) else value) if is_readable else None
