"""Defines the rows of an audit: a value with its interval, the model's distance to it, and a flag if suspicious."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from medtune.data.types import Interval
from medtune.eval.scoring.tables import Table, table_text
from medtune.eval.statistics import intervals

ACCURACY = "accuracy"
NO_MODEL = "no model"
SUBTYPE = "subtype, or task without one"


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between the model's accuracy and the accuracy of a row.

    Attributes:
        value: The model's accuracy minus the row's, on the same questions.
        ci95: 95 % interval of the difference, paired by question, with patients as clusters.
    """

    value: float
    ci95: Interval


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
        """The rows that have a flag."""
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
        name: Name of the row for programs.
        title: Name of the row for readers.
        right: For each question 1 if the row's answer is right and 0 if it is wrong, or the probability of a right
            answer.
        patients: The patient of each question.
        model: The same for the model's answers, in the same order; None leaves the gap out.
        phase: The phase that gave the row's answers.
        note: Describes how the row was made.
    """
    gap = None
    if model is not None:
        found = intervals.gain_interval(right, model, patients)
        gap = Gap(float(np.mean(model)) - float(np.mean(right)), found)
    interval = intervals.mean_interval(right, patients)
    return AuditRow(name, title, phase, ACCURACY, float(np.mean(right)), len(right), interval, gap, note=note)


def flagged(row: AuditRow, flag: str | None) -> AuditRow:
    """Returns the row with a flag, which is added to a flag that it has already; None changes nothing."""
    return replace(row, flag="; ".join(filter(None, [row.flag, flag])) or None)


def flagged_if_level(row: AuditRow) -> AuditRow:
    """Returns the row, flagged if it is surely better than the model, or if the model is not surely better than it."""
    if row.gap is None or row.gap.ci95.low > 0:
        return row
    is_better = row.gap.ci95.high < 0
    return flagged(
        row, "this is surely better than the model" if is_better else "the model is not surely better than this"
    )


def audit_text(audit: Audit, *, title: str) -> str:
    """Returns the audit as plain text: the table of the rows, their flags, and the most frequent answers."""
    columns = ("row", "value", "n", "95 % interval", "model minus row", "")
    cells = tuple(
        (
            row.title,
            row.value,
            row.n,
            _interval(row.ci95, signed=False),
            f"{row.gap.value:+.3f} ({_interval(row.gap.ci95, signed=True)})" if row.gap else None,
            "FLAG" if row.flag else "",
        )
        for row in audit.rows
    )
    collapse = tuple(
        (kind, found.answer, found.share, found.truth_share, found.n, "FLAG" if found.flag else "")
        for kind, found in audit.collapse.items()
    )
    answers = Table("Most frequent answer per subtype", (SUBTYPE, "answer", "share", "true share", "n", ""), collapse)
    notes = [f"95 % intervals: {intervals.METHOD}.", *(f"FLAG {row.title}: {row.flag}" for row in audit.flagged)]
    return "\n".join(
        [
            table_text(Table(title, columns, cells, tuple(notes))),
            *(["", table_text(answers)] if collapse else []),
        ]
    )


def _interval(interval: Interval | None, *, signed: bool) -> str | None:
    if interval is None:
        return None
    sign = "+" if signed else ""
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"
