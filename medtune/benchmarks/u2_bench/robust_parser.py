"""Our own parser of replies: an ambiguous, contradictory or negated reply is no answer and counts as wrong."""

import re

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.number_parsers import read_number


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer in the reply (an option, a number as plain text, or a text); None if no answer is clear."""
    if question.answer_kind == "number":
        return parse_number(reply, question)
    if question.answer_kind == "text":
        return reply.strip() or None
    return parse_choice(reply, question) or _class_of_number(reply, question)


def parse_number(reply: str, question: Question) -> str | None:
    """Returns the number that the reply gives as its answer, or None if none is clear; see `eval.scoring`.

    Example:
        >>> asked = Question("q", "m", "How wide?", (), "5", "number", "p", unit="mm")
        >>> [parse_number(reply, asked) for reply in ("about 1,200.0", "-3 mm in image 2", "50 to 60", "12 +/- 2")]
        ['1200', '-3', None, '12']
    """
    value = read_number(reply, question.unit)
    return None if value is None else f"{value:.12g}"


def _class_of_number(reply: str, question: Question) -> str | None:
    if re.fullmatch(r"\+?[0-9]{1,9}", reply.strip()) is None:
        return None
    return next((each for each in question.options if each.strip().isdecimal() and int(each) == int(reply)), None)
