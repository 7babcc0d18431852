"""Defines the type of a metric: a number that is computed from parsed replies, its bounds, and the questions it covers.

Accuracy, an error in millimetres, a Dice score and corpus BLEU are all written as `Metric(statistic, ...)`. The
statistic is made by `mean_of_rows` where each reply has a number of its own, by `sums_of_rows` where a few counts per
reply are added up and a formula gives the value (RMSE, corpus BLEU), and by `recomputed` from any function of the
replies. The first two give intervals of 400,000 questions in about a second; the third computes the function anew
without each patient and each reply, at most 500 of each. Nothing outside this file needs to know which of them a metric
uses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from medtune.data.catalog import place_of
from medtune.data.types import Interval, Question
from medtune.eval.parsed_reply import ParsedReply, passes_of
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Recomputed, Statistic, dense_sums, mean_of, mean_over_passes

OnRows = Callable[[Sequence[ParsedReply]], Statistic]
Given = TypeVar("Given")
Found = TypeVar("Found")


def every_question(question: Question) -> bool:
    """Returns True, for a metric that covers all questions."""
    return True


def any_questions(questions: Sequence[Question]) -> bool:
    """Returns True, for a metric that may be computed on any questions."""
    return True


def no_guess(questions: Sequence[Question]) -> float | None:
    """Returns None, for a metric whose expected value of a random guess is not known."""
    return None


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that is computed from parsed replies; by default a share of all questions, the higher the better.

    Attributes:
        statistic: Returns the metric's statistic of one or more parsed replies to different questions, from which its
            value on any part of them follows. It is made by `mean_of_rows`, `sums_of_rows` or `recomputed`.
        worst: The worst possible value: the lowest, or the highest if lower is better; inf for an error without limit.
        best: The value of a model that is always right; it is below `worst` if lower is better.
        silent: The value of a model that gives no answers; None if it is `worst`. An error without limit needs it.
        covers: Says whether the metric is about a question. A metric that is about none of the questions is left out.
        guessing: Returns the expected value of a random choice among the options of each question; None if it is not
            known.
        is_defined_on: Says whether questions are enough for the metric. A composite over several tasks needs all of
            them: computed on some, it would be another number of the same name.
    """

    statistic: OnRows
    worst: float = 0.0
    best: float = 1.0
    silent: float | None = None
    covers: Callable[[Question], bool] = every_question
    guessing: Callable[[Sequence[Question]], float | None] = no_guess
    is_defined_on: Callable[[Sequence[Question]], bool] = any_questions

    @property
    def bounds(self) -> Interval:
        """Lowest and highest possible value."""
        return Interval(min(self.worst, self.best), max(self.worst, self.best))

    @property
    def is_composite(self) -> bool:
        """True if it is made of parts that all have to be there; on one of them its value has another name."""
        return self.is_defined_on is not any_questions

    @property
    def higher_is_better(self) -> bool:
        return self.best > self.worst

    def on(self, rows: Sequence[ParsedReply]) -> Statistic:
        """Returns the metric's statistic of these rows, from which its value on any part of them follows.

        If the questions were asked in several passes, it is the mean of the passes' statistics.
        """
        return mean_over_passes(self.by_pass(rows))

    def by_pass(self, rows: Sequence[ParsedReply]) -> list[Statistic]:
        if not rows:
            raise ValueError("a metric needs at least one question, got none")
        return [self.statistic(replies) for replies in passes_of(rows)]

    def value(self, rows: Sequence[ParsedReply]) -> float:
        """Returns the metric's value on these rows, which is the mean of the passes' values if there are several."""
        return self.on(rows).value()

    def covered(self, rows: Iterable[ParsedReply]) -> list[ParsedReply]:
        """Returns the rows whose questions the metric is about."""
        return [row for row in rows if self.covers(row.question)]

    def only(self, covers: Callable[[Question], bool]) -> Metric:
        return replace(self, covers=covers)

    def best_of(self, values: Iterable[float]) -> float | None:
        """Returns the best of some values; None if there are no values."""
        return (max if self.higher_is_better else min)(values, default=None)


def mean_of_rows(number: Callable[[ParsedReply], float]) -> OnRows:
    """Returns the statistic of a metric that is the mean of one number for each reply.

    >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("10", "15")]
    >>> error = Metric(mean_of_rows(lambda row: abs(float(row.parsed or 0) - 12)), worst=float("inf"), best=0.0)
    >>> error.value(rows), error.higher_is_better
    (2.5, False)
    """
    number = _telling(number)
    return lambda rows: mean_of([number(row) for row in rows])


def sums_of_rows(counts: Callable[[ParsedReply], Sequence[float]], finish: Callable[[Floats], Floats]) -> OnRows:
    """Returns the statistic of a metric that is a formula of sums over the replies.

    Args:
        counts: Returns the numbers that a reply adds to the sums; their number is the same for every reply.
        finish: Returns the values of the metric, of shape (...), for sums of shape (..., number of sums).

    >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("9", "16")]
    >>> squares = sums_of_rows(
    ...     lambda row: ((float(row.parsed or 0) - 12) ** 2, 1), lambda sums: np.sqrt(sums[..., 0] / sums[..., 1])
    ... )
    >>> round(Metric(squares, worst=float("inf"), best=0.0).value(rows), 3)
    3.536
    """
    counts = _telling(counts)
    return lambda rows: dense_sums(np.array([counts(row) for row in rows], dtype=np.float64), finish)


def recomputed(function: Callable[[Sequence[ParsedReply]], float]) -> OnRows:
    """Returns the statistic of a metric that is any function of the replies that does not depend on their order.

    >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("9", "16")]
    >>> farthest = recomputed(lambda rows: max(abs(float(row.parsed or 0) - 12) for row in rows))
    >>> Metric(farthest, worst=float("inf"), best=0.0).on(rows).part([0]).value()
    3.0
    """
    function = _telling(function)
    return lambda rows: Recomputed(lambda numbers: function([rows[number] for number in numbers]), len(rows))


def _telling(function: Callable[[Given], Found]) -> Callable[[Given], Found]:
    file = inspect.getfile(function) if inspect.isfunction(function) else ""

    def told(given: Given) -> Found:
        try:
            return function(given)
        except Exception as error:  # A metric of somebody's own may raise anything, and "invalid literal" says nothing.
            where = f"{place_of(error, Path(file))}: " if file else ""
            raise ValueError(f"{where}the metric cannot be computed: {type(error).__name__}: {error}") from error

    return told
