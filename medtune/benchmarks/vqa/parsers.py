"""Reads replies to anybody's own questions: options, yes and no, numbers with their unit, and free text."""

import math

from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.choice_parsers import parse_choice_strict
from medtune.eval.scoring.parsers.closed_parser import is_answer, parse_closed
from medtune.eval.scoring.parsers.free_answer import read_answer
from medtune.eval.scoring.parsers.measured_number import read_measure


def parse(reply: str, question: Question) -> str | None:
    """Returns the answer that a reply gives, in the words of the true answer where both are the same; else None.

    Example:
        >>> asked = Question("q", "m", "How wide?", (), "50", "number", "p", unit="mm")
        >>> [parse(reply, asked) for reply in ("The answer is 5 cm.", "51 mm", "wide")]
        ['50', '51', None]
    """
    if question.options:
        return parse_closed(reply, question)
    if question.answer_kind == "number":
        return _number(reply, question)
    answer = read_answer(reply)
    return question.answer if answer is not None and is_answer(answer, question.answer) else answer


def parse_verbatim(reply: str, question: Question) -> str | None:
    """Returns the whole reply without blanks at its ends, or the option that it is character by character; else None.

    Example:
        >>> asked = Question("q", "m", "Is it so?", ("yes", "no"), "no", "yes_no", "p")
        >>> [parse_verbatim(reply, asked) for reply in ("no", "B", "No", "no.")]
        ['no', 'no', None, None]
    """
    said = reply.strip()
    return parse_choice_strict(said, question) if question.options else said or None


def _number(reply: str, question: Question) -> str | None:
    found, truth = read_measure(reply, question.unit), read_measure(question.answer, question.unit)
    if found is None and normalised(read_answer(reply) or "") == "0":
        found = 0.0  # "None" is a number only as the whole answer.
    if found is None:
        return None
    is_equal = truth is not None and math.isclose(found, truth, rel_tol=1e-9, abs_tol=1e-12)
    return question.answer if is_equal else f"{found:.12g}"
