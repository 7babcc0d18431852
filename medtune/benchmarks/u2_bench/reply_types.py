"""Sorts replies into the kinds that the paper counts in its error analysis.

Errors in the content of a report (a structure mistaken, a finding made up) need a human reader and are not counted.

Source: U2-Bench (arXiv 2505.17779), appendix C.4, which names the kinds without rules; the rules are ours.
"""

import re
from string import ascii_lowercase

from medtune.benchmarks.u2_bench.parsers import parse_number, task_of
from medtune.benchmarks.u2_bench.tasks_and_sets import DETECTION, TEXT, VALUE
from medtune.data.media.masks import LOCATIONS
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice

VALID, EMPTY = "valid", "empty"
FORMAT, EXPLANATORY = "format_violation", "explanatory"
INVALID_TERM, DEVIATION = "invalid_term", "deviation"
DESCRIPTIVE = "descriptive"
KINDS = {
    "classification": (VALID, EXPLANATORY, FORMAT),
    "localisation": (VALID, INVALID_TERM, DEVIATION),
    "values": (VALID, DESCRIPTIVE, FORMAT),
    "reports": (VALID, EMPTY),
}
_WHERE = re.compile(
    r"\b(?:upper|lower|middle|cent(?:er|re|ral)|left|right|top|bottom|quadrant|visible|superior|inferior|lateral|medial)\b"
)
_BLANKS_AND_QUOTES = " \t\r\n\"'"


def analysis(question: Question) -> str:
    """Returns the name of the one of the paper's four analyses that a question belongs to."""
    task = task_of(question)
    if task == VALUE:
        return "values"
    return "localisation" if task in DETECTION else "reports" if task in TEXT else "classification"


def reply_type(reply: str, question: Question) -> str:
    """Returns the kind of a reply, one of `KINDS` for the question's analysis.

    The letter of an option is as valid as its words, because a prompt may ask for either.

    >>> asked = Question("q", "m", "?", ("benign", "malignant"), "benign", "choice", "p", {"task": "DD"})
    >>> [reply_type(reply, asked) for reply in ("Benign", "It is benign.", "A round lesion.")]
    ['valid', 'format_violation', 'explanatory']
    """
    said = reply.strip(_BLANKS_AND_QUOTES).lower()
    kind = analysis(question)
    if kind == "reports":
        return VALID if said else EMPTY
    is_letter = len(said) == 1 and said in ascii_lowercase[: len(question.options)]
    if kind == "values":
        if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)", said):
            return VALID
        return DESCRIPTIVE if parse_number(reply, question) is None else FORMAT
    if said in {option.lower() for option in question.options} or is_letter:
        return VALID
    if kind == "localisation":
        named = any(location in said for location in LOCATIONS) or _WHERE.search(said)
        return INVALID_TERM if named else DEVIATION
    return EXPLANATORY if parse_choice(reply, question) is None else FORMAT
