"""Reads answers to open questions, which are a letter, a number or a few words, and never guesses.

The answer is what a reply marks or states as its answer (medtune/eval/scoring/parsers/free_answer.py), or else its
first or last line, of which the one with fewer words counts, if it is short; two lines that are equally short both have
to be right. The answer is right if it is the true letter, equals the true number, or is the true text after
normalisation (medtune/eval/scoring/normalised_text.py).
"""

import json
import re

from medtune.benchmarks.mmmu_med.release import OTHERS
from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_statements import NEGATION
from medtune.eval.scoring.parsers.closed_parser import is_answer
from medtune.eval.scoring.parsers.free_answer import read_answer, without_introduction
from medtune.eval.scoring.parsers.number_parsers import read_number

_SHORT_WORDS = 8
"""The largest number of words of a line that may be an answer by itself; the number is our own choice."""
_LETTER = re.compile(
    r"(?:(?:so|therefore|thus|hence)\b[\s,:]*)?"
    r"(?:(?:the|option|choice|letter|step|label|point|structure|arrow|region|part|site|area|figure|image|panel)\s+)*"
    r"[\"'(\[]*(?P<letter>[A-Za-z])[\"')\]]*[.!]?(?:\s*\Z|[.):]\s+\w{2,})",
    re.I,
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def truths_of(question: Question) -> list[str]:
    """Returns all answers that are right, the first one first."""
    return [question.answer, *json.loads(question.printed.get(OTHERS, "[]"))]


def parse_open(reply: str, question: Question) -> str | None:
    """Returns the true answer if the reply gives it, else the words that were taken for the answer; None for none.

    Example:
        >>> asked = Question("q", "m", "Which one?", (), "C", "text", "p")
        >>> [parse_open(reply, asked) for reply in ("(C).", "The answer is C.", "step c", "B", "C or D", "not C", "")]
        ['C', 'C', 'C', 'B', 'C or D', 'not C', None]
        >>> parse_open("I count 3. So the answer is 2.", Question("q", "m", "How many?", (), "2", "text", "p"))
        '2'
    """
    said = read_answer(reply)
    if said is None:
        return None
    lines = _short_lines(said) or [said]
    is_right = all(any(_says(line, truth) for truth in truths_of(question)) for line in lines)
    return question.answer if is_right else lines[-1]


def _short_lines(said: str) -> list[str]:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    counts = {line: len(line.split()) for line in (*lines[:1], *lines[-1:])}
    fewest = min(counts.values(), default=_SHORT_WORDS + 1)
    return [line for line, count in counts.items() if count == fewest <= _SHORT_WORDS]


def _says(said: str, truth: str) -> bool:
    if is_answer(said, truth):
        return True
    if len(truth) == 1 and truth.isalpha():
        found = _LETTER.match(without_introduction(said))
        return found is not None and found["letter"].upper() == truth.upper()
    if _NUMBER.fullmatch(truth) is None or NEGATION.search(said):
        return False
    return read_number(said) == read_number(truth)
