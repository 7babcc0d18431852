"""Computes statistics that are functions of column sums, with all resamples in one matrix product.

Accuracy, F1, RMSE and BLEU are such statistics: each question adds to a few counts, which are computed only once, and a
resample adds up the counts of other questions. An interval over 400,000 questions therefore takes about a second.
Processes need not exchange any state, because everything is computed from the gathered predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medtune.eval.statistics import resampling
from medtune.eval.statistics.resampling import Floats, Numbers, check_codes, num_clusters, times_drawn


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """A statistic as a table of what each row adds to which column, and a function of the column sums.

    Attributes:
        rows: Row number of each entry.
        columns: Column of each entry, 0 to `width` - 1.
        values: The number that each entry adds to its column.
        num_rows: Number of rows, with and without entries.
        width: Number of columns.
        finish: Returns the values of the statistic, of shape (...), for sums of shape (..., width).
    """

    rows: Numbers
    columns: Numbers
    values: Floats
    num_rows: int
    width: int
    finish: Callable[[Floats], Floats]

    @property
    def max_resamples(self) -> int:
        """The largest number of resamples, 10,000, because a resample costs little."""
        return resampling.RESAMPLES

    def value(self) -> float:
        """Returns the statistic of all rows, which is the same to the last digit for any order of the rows."""
        return float(self.finish(self.totals()))

    def part(self, chosen: Sequence[int] | Numbers) -> Sums:
        """Returns the same statistic for some of the rows, which are numbered anew in the order given.

        Example:
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

    def resampled(self, codes: Numbers, *, resamples: int, seed: int) -> Floats:
        """Returns the statistic of each resample of whole clusters, from the clusters' own column sums.

        Args:
            codes: Cluster of each row (`cluster_codes`).
            resamples: Number of resamples, >= 1; a single cluster has only one, itself.
            seed: Seed of the draws; the same seed draws the same clusters for all statistics.

        Raises:
            ValueError: There is not one code for each row.
        """
        from scipy.sparse import coo_array

        check_codes(codes, self.num_rows)
        number = num_clusters(codes)
        entries = (self.values, (codes[self.rows], self.columns))
        by_cluster = coo_array(entries, shape=(number, self.width)).tocsr()
        if number * self.width <= resampling.NUMBERS_AT_ONCE:
            by_cluster = by_cluster.toarray()
        times = times_drawn(number, resamples, seed)
        at_once = max(1, resampling.NUMBERS_AT_ONCE // max(self.width, number))
        parts = (times[start : start + at_once].astype(np.float64) for start in range(0, len(times), at_once))
        return np.concatenate([self.finish(part @ by_cluster) for part in parts])

    def totals(self) -> Floats:
        """Returns the column sums over all rows."""
        if np.all(self.values == np.rint(self.values)):
            return np.bincount(self.columns, weights=self.values, minlength=self.width).astype(np.float64)
        order = np.argsort(self.columns, kind="stable")
        ends = np.searchsorted(self.columns[order], np.arange(1, self.width))
        # Fractions are added exactly, because the last digit would otherwise depend on the order of the rows.
        return np.array([math.fsum(part) for part in np.split(self.values[order], ends)])


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

    Raises:
        ValueError: There are no rows.

    Example:
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
