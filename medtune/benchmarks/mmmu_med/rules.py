"""Scores replies to MMMU's questions by the rules of MMMU's own code, lmms-eval and MedEvalKit.

All three draw a letter at random where they read none. Such a reply counts as what it scores on average, one divided by
the number of its letters, and the table states how many there are, and how many answers are right without them.

Reads answers to open questions, which are a letter, a number or a few words, and never guesses.

The answer is what a reply marks or states as its answer (medtune/eval/scoring/parsers/answer_in_reply.py), or else its
first or last line, of which the one with fewer words counts, if it is short; two lines that are equally short both have
to be right. The answer is right if it is the true letter, equals the true number, or is the true text after
normalisation (medtune/eval/scoring/normalised_text.py).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import NamedTuple

from medtune.benchmarks.medical_kits import mmmu_official
from medtune.benchmarks.medical_kits.mmmu_official import RANDOM
from medtune.benchmarks.mmmu_med.sources.mmmu_med import LETTER, OTHERS, SUBJECTS
from medtune.data.json_text import json_value
from medtune.data.types import Question
from medtune.eval.scoring.parsers.answer_in_reply import is_answer, read_answer, without_introduction
from medtune.eval.scoring.parsers.answer_words import NEGATION
from medtune.eval.scoring.parsers.measures import read_measure
from medtune.eval.scoring.reply_rules import ReplyRule

_SHORT_WORDS = 8
"""The largest number of words of a line that may be an answer by itself; the number is our own choice."""
_LETTER = re.compile(
    r"(?:(?:so|therefore|thus|hence)\b[\s,:]*)?"
    r"(?:(?:the|option|choice|letter|step|label|point|structure|arrow|region|part|site|area|figure|image|panel)\s+)*"
    r"[\"'(\[]*(?P<letter>[A-Za-z])[\"')\]]*[.!]?(?:\s*\Z|[.):]\s+\w{2,})",
    re.I,
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")

ReadLetter = Callable[[str, Mapping[str, str]], str]
OpenShare = Callable[[Sequence[str], str], float]


def truths_of(question: Question) -> list[str]:
    """Returns all answers that are right, the first one first."""
    return [question.answer, *json_value(question.printed.get(OTHERS, "[]"))]


def parse_open(reply: str, question: Question) -> str | None:
    """Returns the true answer if the reply gives it, else the words that were taken for the answer; None for none.

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
    return read_measure(said) == read_measure(truth)


class ReplyShare(NamedTuple):
    """How a rule counts one reply: the expected score, from 0 to 1, and whether a letter was drawn for it."""

    share: float
    drawn: bool


def rules() -> dict[str, ReplyRule]:
    return {
        "mmmu": ReplyRule(
            title="MMMU's own code",
            source="MMMU-Benchmark/MMMU@bb0b95a, mmmu/utils/eval_utils.py:10-220",
            differs=(
                'it draws a letter at random for replies such as "A. text", "A)", an option\'s words alone, a box or '
                "answer tags, takes the last of several letters, and calls an open answer right that only holds the "
                "truth."
            ),
            score=_scored(mmmu_official.letter, official_open),
        ),
        "lmms_eval": ReplyRule(
            title="lmms-eval",
            source="EvolvingLMMs-Lab/lmms-eval@75571cf, lmms_eval/tasks/mmmu/utils.py",
            differs=(
                "it takes capital letters at the ends of words for answers, draws at random as MMMU's code does, and "
                "can never call an open answer right."
            ),
            score=_scored(mmmu_official.lmms_letter, lmms_open),
        ),
        "medevalkit": ReplyRule(
            title="MedEvalKit, validation",
            source="alibaba-damo-academy/MedEvalKit@9b12e3b, utils/MMMU/eval_utils.py and utils/MMMU/eval_val.py",
            differs=(
                "it reads tags and boxes and then as MMMU's code does, compares open answers character by character, "
                "so that none is ever right, and shows the first image alone."
            ),
            score=_scored(mmmu_official.letter_in_medevalkit, medevalkit_open),
        ),
    }


def counted(question: Question, reply: str, read: ReadLetter, share_open: OpenShare) -> ReplyShare:
    """Returns how a rule counts a reply; `share_open` gives the expected score of an open answer."""
    if not question.options:
        return ReplyShare(share_open(truths_of(question), reply), drawn=False)
    options = dict(zip(ascii_uppercase, question.options, strict=False))
    letter = read(reply, options)
    if letter == RANDOM:
        return ReplyShare(1 / len(options), drawn=True)
    truth = question.printed.get(LETTER, ascii_uppercase[question.options.index(question.answer)])
    return ReplyShare(float(letter == truth), drawn=False)


def official_open(truths: Sequence[str], reply: str) -> float:
    """Returns 1.0 if MMMU's code calls an open answer right, else 0.0."""
    return float(mmmu_official.open_is_right(truths, mmmu_official.open_pieces(reply)))


def lmms_open(truths: Sequence[str], reply: str) -> float:
    """Returns the mean of the scores that an open answer can get in lmms-eval."""
    possible = mmmu_official.open_accuracies(truths, reply)
    return sum(possible) / len(possible)


def medevalkit_open(truths: Sequence[str], reply: str) -> float:
    """Returns the score of an open answer in MedEvalKit's validation, which compares its characters one by one."""
    return float(mmmu_official.open_is_right(truths, reply))


def _scored(read: ReadLetter, share_open: OpenShare) -> Callable[[Sequence[tuple[Question, str]]], Mapping[str, float]]:
    def score(replies: Sequence[tuple[Question, str]]) -> Mapping[str, float]:
        found = [(question, counted(question, reply, read, share_open)) for question, reply in replies]
        if not found:
            return {}
        sure = {
            subject: sum(
                each.share for question, each in found if question.facets["task"] == subject and not each.drawn
            )
            for subject in SUBJECTS
            if any(question.facets["task"] == subject for question, _ in found)
        }
        return {
            "accuracy": sum(each.share for _, each in found) / len(found),
            "drawn at random": float(sum(each.drawn for _, each in found)),
            "right without draws": sum(sure.values()),
            **{f"right in {subject}": right for subject, right in sure.items()},
        }

    return score
