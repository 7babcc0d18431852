"""Parses a reply by the kind of answer that its question asks for; one of the parsers refuses to guess."""

import math
from collections.abc import Callable

from medtune.benchmarks.ctlesionvqa.number_parsers import (
    first_token,
    official_number,
    plain,
    vsi_first_token,
    vsi_number,
)
from medtune.benchmarks.ctlesionvqa.word_parsers import (
    LETTERS,
    normalised,
    official_letter,
    official_yes_no,
    robust_yes_no,
)
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.number_parsers import read_number
from medtune.eval.scoring.parsers.think_blocks import without_thinking


def robust(reply: str, question: Question) -> str | None:
    """Returns the answer that the reply clearly states, or None.

    The answer is an option (given by letter or words), "Yes" or "No" in the question's spelling, a number, or a phrase
    in `normalised` form. A phrase that equals the truth is returned in the spelling of the truth.
    """
    match question.answer_kind:
        case "choice":
            return parse_choice(reply, question)
        case "yes_no":
            return _option(robust_yes_no(reply), question)
        case "number":
            return _printed(read_number(reply, question.unit))
        case _:
            return _phrase(reply, question)


def official(reply: str, question: Question) -> str | None:
    """Returns the answer that the official code of version 2 reads, its errors included, or None.

    The code of version 1 was never published. A blank before a punctuation mark at either end of a phrase stays when
    the official code removes the mark, so that "cyst ." is not "cyst".
    """
    match question.answer_kind:
        case "choice":
            return _of_letter(official_letter(reply), question)
        case "yes_no":
            return _option(official_yes_no(without_thinking(reply)), question)
        case "number":
            return _printed(official_number(without_thinking(reply)))
        case _:
            return _official_phrase(reply, question)


def vsi(reply: str, question: Question) -> str | None:
    """Returns the answer that VSI-Bench's present code reads: the first word, or the first number, or None."""
    return _vsi(reply, question, vsi_number)


def vsi_original(reply: str, question: Question) -> str | None:
    """Returns the answer that VSI-Bench's first code reads, which is the first word of the reply, or None."""
    return _vsi(reply, question, vsi_first_token)


def is_yes_no(question: Question) -> bool:
    """Returns whether the answer is yes or no, in either format."""
    return question.answer.strip().lower() in ("yes", "no")


def _vsi(reply: str, question: Question, number: Callable[[str], float | None]) -> str | None:
    if question.answer_kind == "number":
        return _printed(number(reply))
    token = first_token(reply).lower()
    if question.answer_kind == "choice":
        return _of_letter(token.upper(), question)
    return _option(token, question) if question.answer_kind == "yes_no" else _phrase(reply, question)


def _of_letter(letter: str, question: Question) -> str | None:
    place = LETTERS.find(letter) if len(letter) == 1 else -1
    return question.options[place] if 0 <= place < len(question.options) else None


def _option(word: str | None, question: Question) -> str | None:
    return next((option for option in question.options if word and option.lower() == word), None)


def _printed(value: float | None) -> str | None:
    return plain(value) if value is not None and math.isfinite(value) else None


def _phrase(reply: str, question: Question) -> str | None:
    said = normalised(without_thinking(reply))
    return question.answer if said and said == normalised(question.answer) else said.strip() or None


def _official_phrase(reply: str, question: Question) -> str | None:
    said = normalised(without_thinking(reply))
    if said == normalised(question.answer):
        return question.answer
    return said if said.strip() else None
