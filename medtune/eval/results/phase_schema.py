"""Defines the types of one evaluation in results.json and scores.json, field by field in the order of the files."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from medtune.data.types import Interval
from medtune.eval.scoring.answer_classes import TaskClasses
from medtune.eval.scoring.reply_ends import Cut, Refusals
from medtune.eval.scoring.tables import Table

Count = Annotated[int, Field(ge=0)]


def _rectangular(table: Table) -> Table:
    if any(len(row) != len(table.columns) for row in table.rows):
        raise ValueError(f"wanted {len(table.columns)} cells in each row of the table {table.title!r}")
    return table


def _fitting(task: TaskClasses) -> TaskClasses:
    rows = len(task.classes)
    if len(task.confusion) != rows or any(len(line) != rows + 1 for line in task.confusion):
        raise ValueError(f"wanted a matrix of {rows} rows of {rows + 1} numbers for the task {task.name!r}")
    return task


ClassesOfTask = Annotated[TaskClasses, AfterValidator(_fitting)]
PaperTable = Annotated[Table, AfterValidator(_rectangular)]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The value of a metric, with its interval and the number of questions behind it.

    Attributes:
        value: Value of the metric, the mean over the passes; None if it has none on these questions.
        n: Number of questions behind the value, with unanswered questions and without unscored ones.
        ci95: 95 % interval with patients as clusters; None if there is none. A patient counts with the answers of all
            passes, so that it contains the noise of repeats.
        unparsable: Number of replies from which no answer could be read, in all passes; they count as wrong.
        unscored: Number of questions with an answer that waits for a judge; they are not counted in `n`.
        repeats: Number of passes: how many times each question was asked.
        repeat_sd: Standard deviation of the passes' values; None for a single pass, or if a pass has no value.
    """

    value: float | None = None
    n: Count
    ci95: Interval | None = None
    unparsable: Count
    unscored: Count = 0
    repeats: Count = 1
    repeat_sd: float | None = None

    @property
    def number(self) -> float:
        """The value; NaN if it has none."""
        return math.nan if self.value is None else self.value


def counted_text(n: int, asked: int | None) -> str:
    return f"{n:,}" if asked is None else f"{n:,} of {asked:,}"


@dataclass(frozen=True, kw_only=True)
class Level(Measured):
    """The primary metric on some of the questions.

    Attributes:
        unanswered: Number of missing replies, in all passes; they count as wrong.
        partly_answered: Number of questions that were answered in some passes and not in others.
        baselines: Name of a baseline, which does not see the image -> its primary metric; None if it does not apply.
    """

    unanswered: Count
    partly_answered: Count = 0
    baselines: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceBin:
    """The answers whose confidence lies in one bin.

    Attributes:
        low: Lower end of the bin, 0 to 1.
        high: Upper end of the bin, 0 to 1.
        n: Number of answers.
        confidence: Mean confidence of the answers, 0 to 1; None if it is not recorded.
        accuracy: Share of right answers, 0 to 1; None if it is not recorded.
    """

    low: float
    high: float
    n: Count
    confidence: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The calibration of likelihood readings: how well their confidence agrees with their accuracy.

    Attributes:
        ece: Expected calibration error, 0 to 1.
        brier: Brier score of the options' probabilities, 0 to 1, lower is better; None if it is not recorded.
        bins: The bins from the lowest to the highest confidence, without empty bins.
    """

    ece: float
    brier: float | None = None
    bins: tuple[ConfidenceBin, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One metric of the replies under one condition, as read by one parser.

    Attributes:
        condition: Name of the condition.
        parser: Name of the parser.
        metric: Name of the metric.
        score: Value of the metric.
    """

    condition: str
    parser: str
    metric: str
    score: Measured


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One evaluation of a model on the questions of a benchmark.

    Attributes:
        parser: Name of the parser whose answers `overall` and `by` count.
        overall: The primary metric on all questions that it is about and that have a score.
        by: Facet -> level -> the primary metric on the questions of that level.
        metrics: Condition -> parser -> metric -> its value.
        tables: Tables in the form of the benchmark's paper, and one with the numbers that the rules of other tools give
            for the same replies.
        calibration: Calibration of the likelihood reading; None if there is no likelihood reading.
        refusals: Numbers of refusals among the generated replies; None if no reply was generated.
        cut: Condition -> numbers of generated replies, and of those that were cut at their largest length.
        unscored: Number of questions with an answer that waits for a judge, among all questions.
        asked: Number of questions that were asked; `overall` counts `n` of them. None if it is not recorded.
        outside: Metric -> its value on the questions that the primary metric is not about, which no score in `overall`
            and `by` counts: each is scored by the first metric that is about it.
        classes: Confusion matrix and scores of the answer classes of each task whose questions share a few answers.
        without_classes: Other task with closed questions -> the reason why it has no answer classes.
        other_answers: Condition and reading -> number of answers that `overall` and `by` do not count, but `metrics`
            does.
    """

    parser: str = "unknown"
    overall: Level
    by: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Mapping[str, Measured]]] = field(default_factory=dict)
    tables: tuple[PaperTable, ...] = ()
    calibration: Reliability | None = None
    refusals: Refusals | None = None
    cut: Mapping[str, Cut] = field(default_factory=dict)
    unscored: Count = 0
    asked: Count | None = None
    outside: Mapping[str, Measured] = field(default_factory=dict)
    classes: tuple[ClassesOfTask, ...] = ()
    without_classes: Mapping[str, str] = field(default_factory=dict)
    other_answers: Mapping[str, Count] = field(default_factory=dict)

    @property
    def counted(self) -> str:
        """How many of the questions `overall` counts, e.g. "40 of 58"."""
        return counted_text(self.overall.n, self.asked)

    @property
    def outside_text(self) -> str:
        """A sentence with the scores of the questions that `overall` does not count; "" if it counts all."""
        known = [self.overall, *self.outside.values()]
        left = (self.asked or 0) - sum(each.n + each.unscored for each in known)
        parts = [
            f"{name} {each.value:.3f} on {each.n:,} questions"
            if each.value is not None
            else f"{name} of {each.n + each.unscored:,} questions, {each.unscored:,} of which wait for a judge"
            for name, each in self.outside.items()
        ]
        parts += [f"no metric is about {left:,} questions"] if left > 0 else []
        return f"The primary metric is not about all questions. Beside it: {'; '.join(parts)}." if parts else ""

    def every_metric(self) -> Iterator[MetricScore]:
        """Yields every metric of every reading under every condition, in the order of the file."""
        for condition, parsers in self.metrics.items():
            for parser, scores in parsers.items():
                for metric, score in scores.items():
                    yield MetricScore(condition, parser, metric, score)
