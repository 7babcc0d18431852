"""A metric: one number of parsed replies, how to read it, and which questions it is about.

Accuracy, an error in millimetres, a Dice score and corpus BLEU are all written as `Metric(statistic, ...)`. The
statistic is made by `mean_of_rows` where each reply has a number of its own, by `sums_of_rows` where a few counts per
reply are added up and a formula gives the value (RMSE, corpus BLEU), and by `recomputed` from any function of the
replies. The first two give intervals of 400,000 questions in about a second; the third computes the function anew for
each of a thousand resamples. Nothing outside this file needs to know which of them a metric uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medtune.data.types import Interval, Question
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.statistics.column_sums import dense_sums, mean_of
from medtune.eval.statistics.resampling import Floats
from medtune.eval.statistics.statistic import Recomputed, Statistic

OnRows = Callable[[Sequence[ParsedReply]], Statistic]


def every_question(question: Question) -> bool:
    """Returns True: the metric is about all questions."""
    return True


def no_guess(questions: Sequence[Question]) -> float | None:
    """Returns None: the metric's expected value of a random guess is not known."""
    return None


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of parsed replies. By default it is a share of all questions, and more of it is better.

    Attributes:
        statistic: Takes at least one parsed reply and returns the number of them, ready for parts and resamples; it is
            made by `mean_of_rows`, `sums_of_rows` or `recomputed`.
        worst: Lowest possible value, or highest where lower is better; inf where an error has no limit.
        best: Value of a model that is always right; below `worst` where lower is better.
        silent: Value of a model that says nothing; None where it is `worst`. An error without a limit needs it.
        covers: The questions that the metric is about; where there is none of them, it is left out.
        guessing: Expected value of a random choice among the options of some questions; None where it is not known.
    """

    statistic: OnRows
    worst: float = 0.0
    best: float = 1.0
    silent: float | None = None
    covers: Callable[[Question], bool] = every_question
    guessing: Callable[[Sequence[Question]], float | None] = no_guess

    @property
    def bounds(self) -> Interval:
        """Lowest and highest possible value."""
        return Interval(min(self.worst, self.best), max(self.worst, self.best))

    @property
    def higher_is_better(self) -> bool:
        """True where a higher value is better."""
        return self.best > self.worst

    def on(self, rows: Sequence[ParsedReply]) -> Statistic:
        """Returns the number of these rows, ready for parts and resamples of them.

        Raises:
            ValueError: There are no rows.
        """
        if not rows:
            raise ValueError("a metric needs at least one question, got none")
        return self.statistic(rows)

    def value(self, rows: Sequence[ParsedReply]) -> float:
        """Returns the number of these rows.

        Raises:
            ValueError: There are no rows.
        """
        return self.on(rows).value()

    def covered(self, rows: Iterable[ParsedReply]) -> list[ParsedReply]:
        """Returns the rows whose questions the metric is about."""
        return [row for row in rows if self.covers(row.question)]

    def only(self, covers: Callable[[Question], bool]) -> Metric:
        """Returns the same metric about other questions."""
        return replace(self, covers=covers)

    def best_of(self, values: Iterable[float]) -> float | None:
        """Returns the best of some values; None where there is none."""
        return (max if self.higher_is_better else min)(values, default=None)


def mean_of_rows(number: Callable[[ParsedReply], float]) -> OnRows:
    """Returns the statistic of a metric that is the mean of one number per reply.

    Example:
        >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("10", "15")]
        >>> error = Metric(mean_of_rows(lambda row: abs(float(row.parsed or 0) - 12)), worst=float("inf"), best=0.0)
        >>> error.value(rows), error.higher_is_better
        (2.5, False)
    """
    return lambda rows: mean_of([number(row) for row in rows])


def sums_of_rows(counts: Callable[[ParsedReply], Sequence[float]], finish: Callable[[Floats], Floats]) -> OnRows:
    """Returns the statistic of a metric that is a formula of counts, which are added up over the replies.

    Args:
        counts: Takes a reply and returns the number that it adds to each sum; every reply has as many numbers.
        finish: (..., counts) sums -> (...) values.

    Example:
        >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("9", "16")]
        >>> squares = sums_of_rows(
        ...     lambda row: ((float(row.parsed or 0) - 12) ** 2, 1), lambda sums: np.sqrt(sums[..., 0] / sums[..., 1])
        ... )
        >>> round(Metric(squares, worst=float("inf"), best=0.0).value(rows), 3)
        3.536
    """
    return lambda rows: dense_sums(np.array([counts(row) for row in rows], dtype=np.float64), finish)


def recomputed(function: Callable[[Sequence[ParsedReply]], float]) -> OnRows:
    """Returns the statistic of a metric that is any function of the replies, which must not depend on their order.

    Example:
        >>> rows = [ParsedReply(Question("q", "m", "?", (), "12", "number", "p"), None, said) for said in ("9", "16")]
        >>> farthest = recomputed(lambda rows: max(abs(float(row.parsed or 0) - 12) for row in rows))
        >>> Metric(farthest, worst=float("inf"), best=0.0).on(rows).part([0]).value()
        3.0
    """
    return lambda rows: Recomputed(lambda numbers: function([rows[number] for number in numbers]), len(rows))
