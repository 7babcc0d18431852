"""Defines the Statistic protocol: a number that can be computed for any part of some rows, and without some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from medtune.eval.statistics.clusters import Floats, Numbers, check_codes

MOST_LEFT_OUT = 500


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
            codes: Cluster of each row (`cluster_codes`).
            chosen: The numbers of the clusters that are left out; no number may occur twice.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """A statistic that is any function of rows; it is computed anew for every part.

    Attributes:
        function: Returns the statistic of the rows with some numbers.
        num_rows: Number of rows.
    """

    function: Callable[[Numbers], float]
    num_rows: int

    @property
    def most_left_out(self) -> int:
        """The largest number of clusters and of rows left out, 500, as each costs as much as the statistic itself."""
        return MOST_LEFT_OUT

    def value(self) -> float:
        return self.function(np.arange(self.num_rows))

    def part(self, chosen: Sequence[int] | Numbers) -> Recomputed:
        """Returns the same statistic for the rows with these numbers.

        Example:
            >>> values = np.array([1.0, 5.0, 3.0])
            >>> Recomputed(lambda rows: float(np.median(values[rows])), 3).part([0, 1]).value()
            3.0
        """
        numbers = np.asarray(chosen, dtype=np.intp)
        return Recomputed(lambda places: self.function(numbers[places]), len(numbers))

    def without(self, codes: Numbers, chosen: Numbers) -> Floats:
        """Returns the statistic without each chosen cluster, computed anew; NaN where no row is left.

        Example:
            >>> values = np.array([1.0, 5.0, 3.0])
            >>> mean = Recomputed(lambda rows: float(values[rows].mean()), 3)
            >>> mean.without(np.array([0, 0, 1]), np.array([0, 1])).tolist()
            [3.0, 3.0]
        """
        check_codes(codes, self.num_rows)
        rest = (np.flatnonzero(codes != cluster) for cluster in chosen)
        return np.array([self.function(rows) if rows.size else np.nan for rows in rest])
