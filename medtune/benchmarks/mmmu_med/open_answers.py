r"""Reads answers to open questions, which are a letter, a number or a few words, and never guesses.

The answer is looked for in the parts of a reply that mark it (<answer>, \boxed{}), or else behind "the answer is" and
"Answer:", or else in the first and the last line, of which the one with fewer words counts, if it is short. Where a
reply has several marks or statements, or two lines that are equally short, all have to be right. The answer then is
right if it is the true letter, equals the true number, or is the true text after normalisation
(medtune/eval/scoring/normalised_text.py).
"""

from __future__ import annotations

import json
import re

from medtune.benchmarks.mmmu_med.release import OTHERS
from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import same_text
from medtune.eval.scoring.parsers.answer_marks import marked_answers, plain_characters, without_emphasis
from medtune.eval.scoring.parsers.number_parsers import read_number
from medtune.eval.scoring.parsers.think_blocks import after_thoughts

_SHORT_WORDS = 8
"""The largest number of words of a line that may be an answer by itself; the number is our own choice."""
_STATEMENT = re.compile(
    r"\banswer\b(?:\s+(?:to|for)\s+(?:the|this)\s+question)?\s*(?:(?:is|was|would be|must be|should be)\b|[:=])"
    r"\s*[:=]?\s*(?P<said>[^\n]+)",
    re.I,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_LEAD = re.compile(
    r"^(?:(?:so|therefore|thus|hence|and)\b[\s,:]*)?"
    r"(?:(?:it|this|that|there)\s+(?:is|are|must be|would be)\b|it's\b)?\s*"
    r"(?:(?:most likely|most probably|likely|probably|clearly)\b)?\s*",
    re.I,
)
_LETTER = re.compile(
    r"^(?:(?:the|option|choice|letter|step|label|point|structure|arrow|region|part|site|area|figure|image|panel)\s+)*"
    r"[\"'(\[]*(?P<letter>[A-Za-z])[\"')\]]*(?:$|[.):]\s+\w{2,}.*$)",
    re.I | re.S,
)


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
    text = after_thoughts(plain_characters(reply)).strip()
    if not text:
        return None
    parts = _answers(text)
    is_right = all(any(_says(part, truth) for truth in truths_of(question)) for part in parts)
    return question.answer if is_right else parts[-1]


def _answers(text: str) -> list[str]:
    """Returns the parts of a reply that say its answer, at least one."""
    if marked := marked_answers(text):
        return [said for part in marked for said in (_stated(part) or [_bare(part)])]
    said = without_emphasis(text).strip()
    if stated := _stated(said):
        return stated
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ends = [line for line in (lines[:1] + lines[-1:]) if len(line.split()) <= _SHORT_WORDS]
    fewest = min((len(line.split()) for line in ends), default=0)
    return [_bare(line) for line in ends if len(line.split()) == fewest] or [_bare(said)]


def _stated(text: str) -> list[str]:
    """Returns the sentences that follow "the answer is" and the like."""
    return [_bare(_SENTENCE_END.split(found["said"], maxsplit=1)[0]) for found in _STATEMENT.finditer(text)]


def _bare(text: str) -> str:
    """Returns an answer without words that lead to it and without punctuation at its end."""
    said = without_emphasis(text).strip()
    return (_LEAD.sub("", said, count=1).strip() or said).rstrip(" .!")


def _says(said: str, truth: str) -> bool:
    if same_text(said, truth):
        return True
    if len(truth) == 1 and truth.isalpha():
        found = _LETTER.match(said)
        return found is not None and found["letter"].upper() == truth.upper()
    number = read_number(truth)
    return number is not None and _is_number(truth) and read_number(said) == number


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d[\d,]*(?:\.\d+)?", text) is not None
