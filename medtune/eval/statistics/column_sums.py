"""Computes statistics that are functions of column sums, with and without each cluster of rows.

Accuracy, F1, RMSE and BLEU are such statistics: each question adds to a few counts, which are computed only once. To
leave out a patient is to subtract the patient's counts. An interval over 400,000 questions therefore takes about a
second.
Processes need not exchange any state, because everything is computed from the gathered predictions.

Where a model answered the same questions several times, each pass is scored as a whole, so that a metric which is no
mean over questions, such as macro F1, is the mean of what a single pass would give. An interval of this mean needs
nothing more than one of a single pass: a patient that is left out goes with all its replies, and the mean over its
passes varies by the patient and by the noise of the replies.

Source: Davison & Hinkley 1997, "Bootstrap Methods and their Application", section 3.8: of nested samples, to take the
outer units as they are, with all their inner ones, has the right variance up to a factor of 1 - 1 / clusters. It holds
where the replies of a pass are drawn independently for each patient, as seeds of sampling are in medtune.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from medtune.eval.statistics import Floats, Numbers, check_codes, num_clusters

MOST_LEFT_OUT = 500

_NUMBERS_AT_ONCE = 2_000_000


class Statistic(Protocol):
    """A number that is computed from rows, and that can be computed for any part of them."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def most_left_out(self) -> int:
        """The largest number of clusters, and of rows, that an interval leaves out one at a time."""

    def value(self) -> float:
        """Returns the statistic of all rows."""

    def part(self, chosen: Sequence[int] | Numbers) -> Statistic:
        """Returns the same statistic for the rows with these numbers; no number may occur twice."""

    def without(self, codes: Numbers, chosen: Numbers) -> Floats:
        """Returns the statistic without the rows of each chosen cluster, one cluster at a time.

        Args:
            chosen: The numbers of the clusters that are left out; no number may occur twice.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """A statistic that is any function of rows; it is computed anew for every part."""

    function: Callable[[Numbers], float]  # Returns the statistic of the rows with some numbers.
    num_rows: int

    @property
    def most_left_out(self) -> int:
        """The largest number of clusters and of rows left out, 500, as each costs as much as the statistic itself."""
        return MOST_LEFT_OUT

    def value(self) -> float:
        return self.function(np.arange(self.num_rows))

    def part(self, chosen: Sequence[int] | Numbers) -> Recomputed:
        """Returns the same statistic for the rows with these numbers.

        >>> values = np.array([1.0, 5.0, 3.0])
        >>> Recomputed(lambda rows: float(np.median(values[rows])), 3).part([0, 1]).value()
        3.0
        """
        numbers = np.asarray(chosen, dtype=np.intp)
        return Recomputed(lambda places: self.function(numbers[places]), len(numbers))

    def without(self, codes: Numbers, chosen: Numbers) -> Floats:
        """Returns the statistic without each chosen cluster, computed anew; NaN where no row is left.

        >>> values = np.array([1.0, 5.0, 3.0])
        >>> mean = Recomputed(lambda rows: float(values[rows].mean()), 3)
        >>> mean.without(np.array([0, 0, 1]), np.array([0, 1])).tolist()
        [3.0, 3.0]
        """
        check_codes(codes, self.num_rows)
        rest = (np.flatnonzero(codes != cluster) for cluster in chosen)
        return np.array([self.function(rows) if rows.size else np.nan for rows in rest])


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """A statistic as a table of what each row adds to which column, and a function of the column sums."""

    rows: Numbers
    columns: Numbers  # Column of each entry, 0 to `width` - 1.
    values: Floats  # The number that each entry adds to its column.
    num_rows: int  # Number of rows, with and without entries.
    width: int
    # Returns the values of the statistic, of shape (...), for sums of shape (..., width).
    finish: Callable[[Floats], Floats]

    @property
    def is_mean(self) -> bool:
        """Whether the statistic is the mean of one number for each row."""
        return self.finish is _ratio

    @property
    def most_left_out(self) -> int:
        """The largest number of clusters and of rows left out, which limits the table of the sums that are left."""
        return max(MOST_LEFT_OUT, _NUMBERS_AT_ONCE // self.width)

    def value(self) -> float:
        """Returns the statistic of all rows, which is the same to the last digit for any order of the rows."""
        return float(self.finish(self.totals()))

    def part(self, chosen: Sequence[int] | Numbers) -> Sums:
        """Returns the same statistic for some of the rows, which are numbered anew in the order given.

        >>> mean_of([1.0, 0.0, 0.5]).part([2, 0]).value()
        0.75
        """
        place = np.full(self.num_rows, -1, dtype=np.intp)
        place[chosen] = np.arange(len(chosen))
        rows = place[self.rows]
        kept = rows >= 0
        return replace(
            self, rows=rows[kept], columns=self.columns[kept], values=self.values[kept], num_rows=len(chosen)
        )

    def without(self, codes: Numbers, chosen: Numbers) -> Floats:
        """Returns the statistic without each chosen cluster, from the column sums that are left.

        The value is not finite where the rows that are left have none.

        Args:
            chosen: The numbers of the clusters that are left out; no number may occur twice.

        >>> mean_of([1.0, 0.0, 0.5]).without(np.array([0, 0, 1]), np.array([0, 1])).tolist()
        [0.5, 0.5]
        """
        check_codes(codes, self.num_rows)
        place = np.full(num_clusters(codes), -1, dtype=np.intp)
        place[chosen] = np.arange(chosen.size)
        placed = place[codes[self.rows]]
        is_out = placed >= 0
        cells = placed[is_out] * self.width + self.columns[is_out]
        out = np.bincount(cells, weights=self.values[is_out], minlength=chosen.size * self.width)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.finish(self.totals() - out.reshape(chosen.size, self.width))

    def totals(self) -> Floats:
        """Returns the column sums over all rows."""
        if np.all(self.values == np.rint(self.values)):
            return np.bincount(self.columns, weights=self.values, minlength=self.width).astype(np.float64)
        order = np.argsort(self.columns, kind="stable")
        ends = np.searchsorted(self.columns[order], np.arange(1, self.width))
        # Fractions are added exactly, because the last digit would otherwise depend on the order of the rows.
        return np.array([math.fsum(part.tolist()) for part in np.split(self.values[order], ends)])


def dense_sums(table: Floats, finish: Callable[[Floats], Floats]) -> Sums:
    """Returns the sums over a table of shape (rows, columns)."""
    num_rows, width = table.shape
    return Sums(
        rows=np.repeat(np.arange(num_rows), width),
        columns=np.tile(np.arange(width), num_rows),
        values=table.ravel(),
        num_rows=num_rows,
        width=width,
        finish=finish,
    )


def mean_of(values: Sequence[float] | Floats) -> Sums:
    """Returns the sums whose statistic is the mean of one value per row.

    >>> mean_of([1.0, 0.0, 0.5, 0.5]).value()
    0.5
    """
    column = np.asarray(values, dtype=np.float64)
    if not column.size:
        raise ValueError("a mean needs at least one question, got none")
    return dense_sums(np.column_stack([column, np.ones_like(column)]), _ratio)


def _ratio(sums: Floats) -> Floats:
    ratio: Floats = sums[..., 0] / sums[..., 1]
    return ratio


def mean_over_passes(passes: Sequence[Statistic]) -> Statistic:
    """Returns the statistic whose value is the mean over passes, on every part of the questions.

    >>> from medtune.eval.statistics.column_sums import mean_of
    >>> mean_over_passes([mean_of([1.0, 0.0]), mean_of([1.0, 1.0])]).value()
    0.75
    """
    if len(passes) == 1:
        return passes[0]
    sums = [each for each in passes if isinstance(each, Sums)]
    if len(sums) == len(passes):
        return _side_by_side(sums)
    recomputed = [each for each in passes if isinstance(each, Recomputed)]
    if len(recomputed) < len(passes):
        raise TypeError("a mean over passes wants statistics that are all column sums, or all recomputed")
    return Recomputed(
        lambda numbers: float(np.mean([each.function(numbers) for each in recomputed])), recomputed[0].num_rows
    )


def sd_of_passes(values: Sequence[float]) -> float | None:
    """Returns the standard deviation of the values of several passes; None for one pass, or if a value is not finite.

    >>> round(sd_of_passes([0.5, 0.5, 0.8]), 6), sd_of_passes([0.5])
    (0.173205, None)
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.stdev(values)


def _side_by_side(passes: Sequence[Sums]) -> Sums:
    starts = np.cumsum([0, *(each.width for each in passes)])

    def finish(sums: Floats) -> Floats:
        blocks = [sums[..., low:high] for low, high in pairwise(starts)]
        mean: Floats = np.mean([each.finish(block) for each, block in zip(passes, blocks, strict=True)], axis=0)
        return mean

    return Sums(
        rows=np.concatenate([each.rows for each in passes]),
        columns=np.concatenate([each.columns + start for each, start in zip(passes, starts[:-1], strict=True)]),
        values=np.concatenate([each.values for each in passes]),
        num_rows=passes[0].num_rows,
        width=int(starts[-1]),
        finish=finish,
    )
