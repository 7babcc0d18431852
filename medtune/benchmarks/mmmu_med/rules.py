"""Scores replies to MMMU's questions by the rules of MMMU's own code, lmms-eval and MedEvalKit.

All three draw a letter at random where they read none. Such a reply counts as what it scores on average, one divided by
the number of its letters, and the table states how many there are, and how many answers are right without them.
"""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import NamedTuple

from medtune.benchmarks.medical_kits import lmms_mmmu, mmmu_official
from medtune.benchmarks.medical_kits.mmmu_official import RANDOM
from medtune.benchmarks.mmmu_med.open_answers import truths_of
from medtune.benchmarks.mmmu_med.release import LETTER, SUBJECTS
from medtune.data.types import Question
from medtune.eval.scoring.reply_rules import ReplyRule

ReadLetter = Callable[[str, Mapping[str, str]], str]
OpenShare = Callable[[Sequence[str], str], float]


class Counted(NamedTuple):
    """How a rule counts one reply: the expected score, from 0 to 1, and whether a letter was drawn for it."""

    share: float
    drawn: bool


def rules() -> dict[str, ReplyRule]:
    """Returns the rules by name."""
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
            score=_scored(lmms_mmmu.letter, lmms_open),
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


def counted(question: Question, reply: str, read: ReadLetter, share_open: OpenShare) -> Counted:
    """Returns how a rule counts a reply.

    Args:
        question: The question.
        reply: The reply as the model gave it; "" for none.
        read: Reads a letter, or says "random".
        share_open: Returns the expected score of an open answer, given the right answers.
    """
    if not question.options:
        return Counted(share_open(truths_of(question), reply), drawn=False)
    options = dict(zip(ascii_uppercase, question.options, strict=False))
    letter = read(reply, options)
    if letter == RANDOM:
        return Counted(1 / len(options), drawn=True)
    truth = question.printed.get(LETTER, ascii_uppercase[question.options.index(question.answer)])
    return Counted(float(letter == truth), drawn=False)


def official_open(truths: Sequence[str], reply: str) -> float:
    """Returns 1.0 if MMMU's code calls an open answer right, else 0.0."""
    return float(mmmu_official.open_is_right(truths, mmmu_official.open_pieces(reply)))


def lmms_open(truths: Sequence[str], reply: str) -> float:
    """Returns the mean of the scores that an open answer can get in lmms-eval."""
    possible = lmms_mmmu.open_accuracies(truths, reply)
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
