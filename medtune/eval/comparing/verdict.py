"""Judges a difference: report, tables, `compare` and W&B call it a gain or a loss by the same rule.

The rule wants two things: the test that swaps whole patients gives p <= `ALPHA`, and the 95 % interval excludes zero.
Where only one of them holds, the evidence is not enough, and the words say which one is missing.

Format is not knowledge: where replies became readable, the same rule is asked of the part of the gain on the questions
that could be read both times (`Readability`). If it is not met there, what was learnt is the format of an answer.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from medtune.data.types import Interval
from medtune.eval.results.gain_schema import LevelGain, Readability
from medtune.eval.statistics.patient_swaps import ALPHA, p_equals, p_text

Verdict = Literal["gain", "format", "loss", "unclear"]
VERDICTS: Mapping[Verdict, str] = {
    "gain": "The gain is larger than chance explains",
    "format": "The model learnt the format of the answers; that it answers more of them right is not shown",
    "loss": "Training made it worse",
    "unclear": "The change cannot be told from chance",
}

TASK = "task"
Certainty = Literal["sure", "open", "unsure"]


def difference_word(*, higher_is_better: bool) -> str:
    """Returns what tables call the difference of after and before, which of an error is no gain where it is above 0."""
    return "gain" if higher_is_better else "change"


def leading_p(change: LevelGain) -> float | None:
    """Returns the p value that decides: after Holm's correction where there is one; None if none is recorded."""
    return change.permutation_p if change.permutation_p_holm is None else change.permutation_p_holm


def verdict(change: LevelGain, *, higher_is_better: bool) -> Verdict:
    """Returns "gain" or "loss" where the p value and the interval both say so, else "unclear".

    A gain is "format" if the same is not so of its part on the questions whose replies could be read both times.
    """
    p = leading_p(change)
    if p is None or p > ALPHA or change.ci95 is None or not _excludes_zero(change.ci95):
        return "unclear"
    if (change.ci95.low > 0) != higher_is_better:
        return "loss"
    return "gain" if is_of_answers(change) else "format"


def verdict_text(change: LevelGain, *, higher_is_better: bool) -> str:
    judged = verdict(change, higher_is_better=higher_is_better)
    unread = "" if judged != "loss" or is_of_answers(change) else "; no loss is shown on what could be read both times"
    return VERDICTS[judged] + unread


def is_of_answers(change: LevelGain) -> bool:
    """Returns whether p value and interval show the difference on the questions whose replies can be read both times.

    It must have the sign of the whole difference.
    """
    part = change.readability
    if part is None:
        return True
    if part.ci95 is None or (part.permutation_p or 0.0) > ALPHA:
        return False
    return part.ci95.low > 0 if change.value > 0 else part.ci95.high < 0


def grounds(change: LevelGain) -> str:
    """Returns the evidence as a sentence; where the verdict is "unclear", it says what is missing."""
    p = leading_p(change)
    if p is None:
        return "No test of whole patients is recorded, and without it nothing is called a gain"
    said = f"the test that swaps whole patients gives {p_equals(p)}"
    if change.ci95 is None:
        return f"There is no 95 % interval; {said}"
    is_small, excludes = p <= ALPHA, _excludes_zero(change.ci95)
    if is_small and excludes:
        return f"The 95 % interval excludes zero, and {said}"
    if excludes:
        return f"The evidence is not enough: the 95 % interval excludes zero, but {said}{_at_least(change)}"
    if is_small:
        return f"The evidence is not enough: {said}, but the 95 % interval includes zero"
    return (
        f"The 95 % interval includes zero, and {said}{_at_least(change)}: more patients or a larger effect are needed"
    )


def question_level(change: LevelGain) -> str:
    """Returns the result of McNemar's test as a sentence that says what it assumes."""
    test = f"McNemar's exact test, which takes questions as independent, gives {p_equals(change.mcnemar_p)}"
    return f"At the level of questions, {test}; it decides nothing here"


def has_one_question_each(change: LevelGain) -> bool:
    """Returns whether each patient has one question, so that questions are as independent as patients."""
    return change.num_patients == change.n


def one_question_note(levels: Sequence[str], of: int) -> str:
    """Returns the note of a table in which each patient of these levels has one question."""
    where = "" if len(levels) == of else f" of {', '.join(levels)}"
    return f"Each patient{where} has one question, so that swaps of patients and of questions are the same."


def _excludes_zero(interval: Interval) -> bool:
    return interval.low > 0 or interval.high < 0


def _at_least(change: LevelGain) -> str:
    if change.num_patients is None:
        return ""
    least = 2.0 ** (1 - change.num_patients)
    few = f"{change.num_patients} patient{'' if change.num_patients == 1 else 's'}"
    return f" (with {few} it cannot be below {p_text(least)})" if least > ALPHA else ""


def readability_text(found: Readability, names: tuple[str, str] | None = None) -> str:
    """Returns the two parts of a gain as a sentence, or those of the difference between two sides with these names.

    >>> readability_text(Readability(only_before=1, only_after=20, neither=0, both=0))
    '20 replies became readable and 1 unreadable; no question has a reply that could be read both times.'
    """
    said = f"{found.only_after:,} {'reply' if found.only_after == 1 else 'replies'} became readable and "
    said += f"{found.only_before:,} unreadable"
    difference, gone = "gain", "goes with what became readable"
    if names:
        said = f"{found.only_before:,} questions have a readable reply of {names[0]} alone, {found.only_after:,} of "
        said += f"{names[1]} alone"
        difference, gone = "difference", "goes with the others"
    if found.neither:
        said += f", {found.neither:,} could be read neither time"
    if found.value is None:
        return f"{said}; no question has a reply that could be read both times."
    reach = f" (95 % interval {found.ci95.text(signed=True)})" if found.ci95 else ""
    said += f"; the part of the {difference} on the {found.both:,} questions whose replies could be read both times is "
    rest = "" if found.format_value is None else f", and {found.format_value:+.3f} {gone}"
    return f"{said}{found.value:+.3f}{reach}{rest}."
