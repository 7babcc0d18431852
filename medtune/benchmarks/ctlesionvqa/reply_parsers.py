"""Parses a reply by the kind of answer that its question asks for; one of the parsers refuses to guess."""

import math
import re
from collections.abc import Callable
from decimal import Decimal

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.choice_statements import after_thoughts, without_thinking
from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.scoring.parsers.number_words import first_number_in_words

_V2 = re.compile(r"-?\d+\.?\d*")
_VSI = re.compile(r"-?\d+(?:\.\d+)?")

LETTERS = "ABCD"
_STANDING_ALONE = re.compile(r"\b([A-D])\b")
_YES_OR_NO = re.compile(r"\b(?<!-)(yes|no)\b(?!-)")
_VERDICT = re.compile(r"[\s*_\"'`(]*(yes|no)\b[\s*_\"'`)]*(?:[.,;:!\n]|\Z)")


def official_number(text: str) -> float | None:
    """Returns the first number in a text as the official code of version 2 reads it, or None if there is none.

    Its errors are kept: "1,123.3" gives 1, ".5" gives 5, "1e3" gives 1, "10-12" gives 10, and "L1, 14 mm" gives 1.

    >>> [official_number(text) for text in ("-35 HU", "1,123.3", ".5", "none")]
    [-35.0, 1.0, 5.0, None]

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_number).
    """
    found = _V2.search(text)
    return float(found[0]) if found else None


def vsi_number(text: str) -> float | None:
    """Returns the first number, in digits or English words, that VSI-Bench's present code finds; None if there is none.

    A block of reasoning in the reply is searched too.

    >>> [vsi_number(text) for text in ("Three lesions.", "twenty-one", "one of 7", "1e3")]
    [3.0, 21.0, 1.0, 1.0]

    Source: EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/vsibench/utils.py (extract_number).
    """
    said = text.strip().lower()
    digits, words = _VSI.search(said), first_number_in_words(said)
    if digits and (words is None or digits.start() < words[0]):
        return float(digits[0])
    return float(words[1]) if words else None


def vsi_first_token(text: str) -> float | None:
    """Returns the text before the first blank as a number, or None if Python cannot read it as one.

    Python reads "nan" and "1e3" as numbers too.

    Source: vision-x-nyu/thinking-in-space, lmms_eval/tasks/vsibench/utils.py (fuzzy_matching, to_float).
    """
    try:
        return float(first_token(text))
    except ValueError:
        return None


def first_token(text: str) -> str:
    """Returns the text before the first blank, without the dots at its end.

    Source: vision-x-nyu/thinking-in-space, lmms_eval/tasks/vsibench/utils.py (fuzzy_matching).
    """
    return text.split(" ")[0].rstrip(".").strip()


def plain(value: float) -> str:
    """Returns a finite number as text without exponent or needless zeros, which every parser of this module can read.

    >>> plain(1e-05), plain(12.0), plain(-3.25)
    ('0.00001', '12', '-3.25')
    """
    digits = format(Decimal(repr(value)), "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def official_letter(reply: str) -> str:
    """Returns the letter that the official code reads from a reply, or "" if it reads none.

    If a reply begins with A, B, C or D, even as the start of a word, the official code takes that letter: "Answer: C"
    gives A and "Based on HU, D" gives B. This error is kept. Otherwise the first letter that stands alone counts.

    >>> [official_letter(reply) for reply in ("b)", "Answer: C", "I think D", "(C)", "none")]
    ['B', 'A', 'D', 'C', '']

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_letter).
    """
    said = without_thinking(reply).upper()
    if said and said[0] in LETTERS:
        return said[0]
    found = _STANDING_ALONE.search(said)
    return found[1] if found else ""


def official_yes_no(text: str) -> str:
    """Returns "yes" or "no" as the official code reads it from a reply, or "" if it reads neither.

    The text should not contain the model's reasoning. The errors of the official code are kept: "Normal", "Nodule" and
    "not certain" start with "no" and give "no"; "neither yes nor no" gives "yes"; "absent" gives neither.

    >>> [official_yes_no(text) for text in ("Yes.", "Normal liver", "unclear; no", "positive")]
    ['yes', 'no', 'no', '']

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (extract_binary).
    """
    said = text.strip().lower()
    for word in ("yes", "no"):
        if said.startswith(word):
            return word
    for word in ("yes", "no"):
        if re.search(rf"\b{word}\b", said):
            return word
    return ""


def robust_yes_no(reply: str) -> str | None:
    """Returns "yes" or "no", or None if the reply states neither or both.

    If the first word is "yes" or "no" and a punctuation mark follows ("Yes, ..."), it decides, unless the opposite word
    ends a clause too. Otherwise all occurrences of the words "yes" and "no" have to agree.

    >>> [robust_yes_no(reply) for reply in ("Yes, no doubt", "Normal liver", "no, yes.", "There is no lesion")]
    ['yes', None, None, 'no']
    """
    said = after_thoughts(reply).lower()
    first = _VERDICT.match(said)
    verdicts = (
        {first[1], *re.findall(r"\b(yes|no)\b\s*(?:[.,;:!\n]|\Z)", said)} if first else set(_YES_OR_NO.findall(said))
    )
    return verdicts.pop() if len(verdicts) == 1 else None


def normalised(text: str) -> str:
    """Returns a phrase in lower case, without punctuation except hyphens, and with single blanks.

    >>> normalised("  LIVER,  Segment-7 ")
    'liver segment-7'

    Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/eval/metrics.py (normalize_text).
    """
    return re.sub(r"\s+", " ", re.sub(r"[^\w\s-]", "", text.strip().lower()))


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
            return _printed(read_measure(reply, question.unit, asked=question.text))
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
            said = normalised(without_thinking(reply))
            if said == normalised(question.answer):
                return question.answer
            return said if said.strip() else None


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
