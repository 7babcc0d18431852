"""Defines the types of a gain in the files of results."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from medtune.data.types import Interval
from medtune.eval.results.phase_schema import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Readability:
    """The questions of a gain by whether the replies to them could be read, and the gain split by it into two parts.

    A model that merely learnt to answer in few words is read more often, and its score rises without any knowledge.

    Attributes:
        only_before: Number of questions whose reply could be read before and not after.
        only_after: Number of questions whose reply could be read after and not before.
        neither: Number of questions whose reply could be read neither before nor after.
        both: Number of questions whose reply, in each pass, could be read before and after.
        value: The part of the gain on those questions: the gain if all other replies had stayed as they were; None if
            there are none.
        ci95: Its 95 % interval, paired by question, with patients as clusters; None if there is none.
        permutation_p: Its p value from swaps of whole patients; None if there is none.
        format_value: The other part of the gain, which goes with replies that became readable or unreadable; None if it
            is not recorded.
    """

    only_before: int
    only_after: int
    neither: int
    both: int
    value: float | None = None
    ci95: Interval | None = None
    permutation_p: float | None = None
    format_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The number of questions that were answered right before, after, both times or never.

    A question that was asked in several passes counts as right if more than half of its answers are.

    Attributes:
        both_right: Number of questions right before and after.
        only_before: Number of questions right before and wrong after.
        only_after: Number of questions wrong before and right after.
        both_wrong: Number of questions wrong before and after.
    """

    both_right: Count
    only_before: Count
    only_after: Count
    both_wrong: Count


@dataclass(frozen=True, kw_only=True)
class LevelGain:
    """The gain on some of the questions.

    Attributes:
        value: Primary metric after minus before.
        before: Primary metric before, of the questions counted in `n`; None if it is not recorded.
        after: Primary metric after, of the same questions; None if it is not recorded.
        n: Number of questions whose answers have a score both before and after.
        num_patients: Number of patients that these questions are about; None if it is not recorded.
        unscored: Number of questions left out because an answer, before or after, waits for a judge.
        ci95: 95 % interval of the value, paired by question, with patients as clusters; None if it is not recorded.
        permutation_p: Two-sided p value of the primary metric's change, from swaps of before and after for whole
            patients; the gain on all questions is judged by it. None if it is not recorded.
        permutation_p_holm: `permutation_p` of a level after Holm's correction over all levels and answers of the page,
            by which a level is judged; None for all questions together.
        mcnemar_p: Two-sided p value of McNemar's exact test, which takes questions as independent.
        counts: Number of questions that were answered right before, after, both times or never.
        readability: The questions by whether the replies to them could be read, and the two parts of the gain: on those
            whose replies always could, and the rest; None if every reply could be read, or if it is not recorded.
    """

    value: float
    before: float | None = None
    after: float | None = None
    n: Count
    num_patients: Count | None = None
    unscored: Count = 0
    ci95: Interval | None = None
    permutation_p: float | None = None
    permutation_p_holm: float | None = None
    mcnemar_p: float
    counts: Changed
    readability: Readability | None = None


@dataclass(frozen=True, kw_only=True)
class Gain(LevelGain):
    """The gain on all questions.

    Attributes:
        by: Facet -> level -> the gain on the questions of that level.
        answers: Task -> true answer -> the change of the share of right ones among the questions with this answer, for
            tasks with few different answers.
    """

    by: Mapping[str, Mapping[str, LevelGain]] = field(default_factory=dict)
    answers: Mapping[str, Mapping[str, LevelGain]] = field(default_factory=dict)
