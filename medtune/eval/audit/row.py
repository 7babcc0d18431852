"""Defines the rows of an audit: a value with its interval, the model's distance to it, and a flag if suspicious."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from medtune.data.types import Interval, Question
from medtune.eval.statistics import intervals
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.patient_swaps import holm, patient_p

ACCURACY = "accuracy"
NO_MODEL = "no model"
SUBTYPE = "subtype, or task without one"
CHECKS_ALPHA = 0.01
"""The p value, after Holm's correction over the checks, up to which one is called better than the model. Beside the
gain, which is judged at 0.05, it keeps the probability that anything on a page is claimed wrongly at about 5 %."""
BETTER, NOT_BEATEN = "this check is surely better than the model", "the model is not surely better than this check"
IMAGE_WORDS = (
    "the image misleads: the model is surely better without its own image",
    "the image is not shown to be used: the model is not surely better with it",
)
ORDER_WORDS = (
    "the order of the frames misleads: the model is surely better with another",
    "the order of the frames is not shown to be used: the model is not surely better with it",
)


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between the model's accuracy and the accuracy of a row.

    Attributes:
        value: The model's accuracy minus the row's, on the same questions.
        ci95: 95 % interval of the difference, paired by question, with patients as clusters.
        permutation_p: Two-sided p value of the difference, from swaps of the two for whole patients; None where the
            interval does not lie below 0, so that nothing is claimed, or where it is not recorded.
        permutation_p_holm: The same after Holm's correction over all checks of the audit.
    """

    value: float
    ci95: Interval
    permutation_p: float | None = None
    permutation_p_holm: float | None = None

    @property
    def is_better(self) -> bool:
        """True if the row is surely better than the model: by its interval, and by its p value among all checks."""
        return self.ci95.high < 0 and self.permutation_p_holm is not None and self.permutation_p_holm <= CHECKS_ALPHA


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of an audit.

    Attributes:
        name: Name of the row for programs, e.g. "blank_image".
        title: Name of the row for readers.
        phase: The phase that gave the answers: "final", "zero_shot", or "no model" if no model was asked.
        metric: Name of the measure, e.g. "accuracy".
        value: Value of the measure.
        n: Number of questions behind the value.
        ci95: 95 % interval with patients as clusters; None for an expected value.
        gap: The difference between the model's accuracy and the value; None if the value is not an accuracy.
        flag: The reason to be suspicious; None if there is none.
        note: Describes how the row was made.
    """

    name: str
    title: str
    phase: str
    metric: str
    value: float
    n: int
    ci95: Interval | None = None
    gap: Gap | None = None
    flag: str | None = None
    note: str = ""
    # The ids of the questions behind the value, where these are not all that have options; in no file.
    counts: Annotated[tuple[str, ...], Field(exclude=True), SkipJsonSchema()] = field(
        default=(), repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class Collapse:
    """The answer that the model gives most often within a subtype, and how often this answer is the true one.

    Attributes:
        answer: The answer; None stands for replies that could not be read.
        share: Share of the subtype's questions that got this answer.
        truth_share: Share of the subtype's questions whose true answer it is.
        excess_ci95: 95 % interval of `share - truth_share`, with patients as clusters.
        n: Number of questions of the subtype.
        flag: The reason to be suspicious; None if there is none.
    """

    answer: str | None
    share: float
    truth_share: float
    excess_ci95: Interval
    n: int
    flag: str | None


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one phase.

    Attributes:
        rows: All rows, the model's own accuracy first.
        collapse: The most frequent answer of each subtype, or of each task whose questions have no subtype.
    """

    rows: tuple[AuditRow, ...]
    collapse: dict[str, Collapse]

    @property
    def flagged(self) -> tuple[AuditRow, ...]:
        return tuple(row for row in self.rows if row.flag)


def accuracy_row(
    name: str,
    title: str,
    right: Sequence[float],
    patients: Sequence[str],
    *,
    model: Sequence[float] | None,
    phase: str = NO_MODEL,
    note: str = "",
) -> AuditRow:
    """Returns the row of an accuracy, with the model's distance to it on the same questions.

    Args:
        right: For each question 1 if the row's answer is right and 0 if it is wrong, or the probability of a right
            answer.
    """
    gap = None
    if model is not None:
        found = intervals.gain_interval(right, model, patients)
        p = patient_p(mean_of([*right, *model]), patients) if found.high < 0 else None
        gap = Gap(float(np.mean(model)) - float(np.mean(right)), found, p)
    interval = intervals.mean_interval(right, patients)
    return AuditRow(name, title, phase, ACCURACY, float(np.mean(right)), len(right), interval, gap, note=note)


def ids_of(questions: Iterable[Question]) -> tuple[str, ...]:
    return tuple(question.id for question in questions)


def flagged(row: AuditRow, flag: str | None) -> AuditRow:
    """Returns the row with a flag, which is added to a flag that it has already; None changes nothing."""
    return replace(row, flag="; ".join(filter(None, [row.flag, flag])) or None)


def flagged_if_level(rows: Sequence[AuditRow], words: Mapping[str, tuple[str, str]]) -> tuple[AuditRow, ...]:
    """Returns the rows of an audit, of which those are flagged that the model does not surely beat.

    Args:
        rows: All rows of the audit; the p values of those with a gap are adjusted as one family.
        words: Name of a row -> the flags of a row that is surely better than the model, and of one that the model does
            not surely beat. Rows without a gap, and those that are not named here, get none.
    """
    gaps = [row.gap for row in rows if row.gap]
    adjusted = iter(holm([1.0 if gap.permutation_p is None else gap.permutation_p for gap in gaps]).p_values)
    found = []
    for row in rows:
        if row.gap:
            p = next(adjusted)
            gap = row.gap if row.gap.permutation_p is None else replace(row.gap, permutation_p_holm=p)
            row = replace(row, gap=gap)
            if row.name in words and gap.ci95.low <= 0:
                row = flagged(row, words[row.name][0 if gap.is_better else 1])
        found.append(row)
    return tuple(found)
