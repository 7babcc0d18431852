"""Our own parser of replies: an ambiguous, contradictory or negated reply is no answer and counts as wrong."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from medtune.data.types import Question
from medtune.eval.scoring.choice_parsers import parse_choice

_NUMBER = re.compile(
    r"(?<![\w.,])[-+−]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?![\w]*\d)(?![.,]\d)", re.I
)
_SPREAD = re.compile(r"(?:±|\+/-|\+-)\s*\S+")
_RANGE = re.compile(r"\s*(?:to|and|or|[-–~/])\s*", re.I)
_STATED = re.compile(
    r"(?:\bis|\banswer|\bvalue|\bestimate|[:=≈])[\s*_`]*(?:about|around|approximately)?[\s*_`]*$", re.I
)


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer in the reply (an option, a number as plain text, or a text); None if no answer is clear."""
    if question.answer_kind == "number":
        return parse_number(reply, question)
    if question.answer_kind == "text":
        return reply.strip() or None
    return parse_choice(reply, question)


def parse_number(reply: str, question: Question) -> str | None:
    """Returns the number that the reply gives as its answer, or None if none is clear.

    Signs, decimals and thousands separators are understood; a number after "+/-" is ignored. A range ("50 to 60") is no
    answer. Of several numbers, the one with the question's unit is taken, or else the one that the reply states ("is
    12.5", "Answer: 12.5"). If this does not leave exactly one number, the result is None.

    Example:
        >>> asked = Question("q", "m", "How wide?", (), "5", "number", "p", unit="mm")
        >>> [parse_number(reply, asked) for reply in ("about 1,200.0", "-3 mm in image 2", "50 to 60", "12 +/- 2")]
        ['1200', '-3', None, '12']
    """
    text = _SPREAD.sub(" ", reply)
    found = list(_NUMBER.finditer(text))
    if len(found) > 1:
        unit = re.compile(rf"\s*{re.escape(question.unit or '')}(?!\w)", re.I)
        gaps = (text[first.end() : second.start()] for first, second in pairwise(found))
        if any(_RANGE.fullmatch(unit.sub(" ", gap, count=1) if question.unit else gap) for gap in gaps):
            return None
        with_unit = [number for number in found if question.unit and unit.match(text, number.end())]
        stated = [number for number in found if _STATED.search(text[: number.start()])]
        found = with_unit if len(with_unit) == 1 else stated
    if len(found) != 1:
        return None
    value = float(found[0][0].replace(",", "").replace("−", "-"))
    return f"{value:.12g}" if math.isfinite(value) else None
