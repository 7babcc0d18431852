"""Statistics that column sums over rows determine: a resample of them is one row of a matrix product.

Accuracy, F1, RMSE and BLEU are such: what each question adds to a few counts is known once, and every resample only
adds up other questions. That makes an interval of 400,000 questions a matter of a second, and needs no state that
processes would have to exchange: all of it is computed from the gathered predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What each row adds to which column, and the statistic that the column sums give.

    Attributes:
        rows: Row number of each entry.
        columns: Column of each entry, 0 to `width` - 1.
        values: What the row adds to the column.
        num_rows: Number of rows, with and without entries.
        finish: (..., width) sums -> (...) values of the statistic.
    """

    rows: Numbers
    columns: Numbers
    values: Floats
    num_rows: int
    width: int
    finish: Callable[[Floats], Floats]

    def value(self) -> float:
        """Returns the statistic of all rows, the same to the last digit in whatever order they come."""
        return float(self.finish(self.totals()))

    def part(self, chosen: Sequence[int] | Numbers) -> Sums:
        """Returns the same statistic of some of the rows, which are counted anew in the order given.

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

    def totals(self) -> Floats:
        """Returns the column sums over all rows."""
        if np.all(self.values == np.rint(self.values)):
            return np.bincount(self.columns, weights=self.values, minlength=self.width).astype(np.float64)
        order = np.argsort(self.columns, kind="stable")
        ends = np.searchsorted(self.columns[order], np.arange(1, self.width))
        # Fractions are added exactly, or the last digit would depend on the order of rows.
        return np.array([math.fsum(part) for part in np.split(self.values[order], ends)])


def dense_sums(table: Floats, finish: Callable[[Floats], Floats]) -> Sums:
    """Returns the sums of a table (rows, columns)."""
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
