"""Defines the type of a metric: a number that is computed from parsed replies, its bounds, and the questions it covers.

A parsed reply is a question, the reply to it, and the answer that a parser read.

Accuracy, an error in millimetres, a Dice score and corpus BLEU are all written as `Metric(statistic, ...)`. The
statistic is made by `mean_of_rows` where each reply has a number of its own, by `sums_of_rows` where a few counts per
reply are added up and a formula gives the value (RMSE, corpus BLEU), and by `recomputed` from any function of the
replies. The first two give intervals of 400,000 questions in about a second; the third computes the function anew
without each patient and each reply, at most 500 of each.
"""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TypeVar

import numpy as np

from medtune.data.catalog import place_of
from medtune.data.types import Interval, Prediction, Question
from medtune.eval.rows import as_rows
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Recomputed, Statistic, dense_sums, mean_of, mean_over_passes

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A question, the reply to it, and the answer that a parser read from the reply.

    A question that was asked repeatedly has a reply for each pass. The fields are about the reply of the first pass,
    and `later` holds the replies of the others. `passes` is what a score of the question has to count.

    Attributes:
        prediction: The reply; None if the question was not answered, which counts as wrong.
        parsed: The option or value that was read from the reply; None if none could be read.
        unscored: True if the reply, or another one to the same question, waits for a judge. The question is then
            neither right nor wrong, and no score counts it.
        later: The replies of the second and all later passes to the same question.
    """

    question: Question
    prediction: Prediction | None
    parsed: str | None
    unscored: bool = False
    later: tuple[ParsedReply, ...] = ()

    @property
    def passes(self) -> tuple[ParsedReply, ...]:
        """The replies to the question, one for each pass."""
        return (replace(self, later=()), *self.later) if self.later else (self,)

    @property
    def share_right(self) -> float:
        """The share of the passes whose answer is right, 0 to 1."""
        if not self.later:
            return float(self._is_right)
        return sum(reply._is_right for reply in (self, *self.later)) / (1 + len(self.later))

    @property
    def correct(self) -> bool:
        """True if the parsed answer is the true one; of several passes, if more than half of the answers are."""
        return self.share_right > 0.5

    @property
    def is_answered(self) -> bool:
        """True if the question was answered in at least one pass."""
        return any(reply.prediction is not None for reply in (self, *self.later))

    @property
    def _is_right(self) -> bool:
        return self.parsed is not None and is_same_answer(self.parsed, self.question)


def is_same_answer(said: str, question: Question) -> bool:
    """Returns whether an answer is the true one: exactly for options and numbers, as `comparable` for free text.

    A benchmark that compares free text in another way has a parser or a metric that says so.

    >>> asked = Question("q", "m", "Where?", (), "Left lobe", "text", "p")
    >>> is_same_answer(" left  LOBE. ", asked), is_same_answer("right lobe", asked)
    (True, False)
    """
    if said == question.answer:
        return True
    return question.answer_kind == "text" and comparable(said) == comparable(question.answer)


def comparable(text: str) -> str:
    """Returns free text as it is compared: without case, surplus white space and a full stop at the end.

    >>> comparable("  The ﬁrst STRASSE. ") == comparable("the first Straße")
    True

    Source: Caseless matching of compatible characters: The Unicode Standard, section 3.13, definition D146.
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", text).casefold())
    plain = unicodedata.normalize("NFKD", folded.casefold())
    return " ".join(plain.split()).removesuffix(".").rstrip()


def joined_passes(replies: Sequence[ParsedReply], *, unscored: bool) -> ParsedReply:
    """Returns the row of a question that was asked in several passes; none is scored if one waits for a judge."""
    first, *later = [replace(reply, unscored=True) for reply in replies] if unscored else replies
    return replace(first, later=tuple(later)) if later else first


def passes_of(rows: Sequence[ParsedReply]) -> list[Sequence[ParsedReply]]:
    """Returns the rows of each pass, every list with one row for each question in the order of `rows`.

    If rows of several evaluations with different numbers of passes stand together, there are as many passes as it takes
    to count all replies to a question equally often: with five and one, the one is in each of five.
    """
    if num_passes(rows) == 1:
        return [rows]
    replies = [row.passes for row in rows]
    number = math.lcm(*{len(each) for each in replies})
    return [[each[repeat % len(each)] for each in replies] for repeat in range(number)]


def num_passes(rows: Sequence[ParsedReply]) -> int:
    """Returns how many times the questions were asked, at least 1."""
    return 1 + int(as_rows(rows).column(_num_later).max(initial=0))


def _num_later(row: ParsedReply) -> int:
    return len(row.later)


def scored_everywhere(sides: Sequence[Sequence[ParsedReply]]) -> list[list[ParsedReply]]:
    """Returns the rows of each side, without the questions to which any side has a reply that waits for a judge."""
    kept = [not any(row.unscored for row in answers) for answers in zip(*sides, strict=True)]
    return [list(compress(rows, kept)) for rows in sides]


def passes_text(repeats: int, sd: float | None = None) -> str:
    """Returns "mean of R passes", with the standard deviation between passes if it is given; "" for a single pass.

    >>> passes_text(5), passes_text(5, 0.0123), passes_text(1)
    ('mean of 5 passes', 'mean of 5 passes (standard deviation between passes 0.012)', '')
    """
    if repeats == 1:
        return ""
    spread = f" (standard deviation between passes {sd:.3f})" if sd is not None else ""
    return f"mean of {repeats} passes{spread}"


OnRows = Callable[[Sequence[ParsedReply]], Statistic]


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
    return lambda rows: mean_of(as_rows(rows).column(number))


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
