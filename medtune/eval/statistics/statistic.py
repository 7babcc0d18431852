"""Defines the Statistic protocol: a number that can be computed for any part of some rows and any resample of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from medtune.eval.statistics import resampling
from medtune.eval.statistics.resampling import Floats, Numbers, check_codes, drawn_clusters, num_clusters


class Statistic(Protocol):
    """A number that is computed from rows, and that can be computed for any part or resample of them."""

    @property
    def max_resamples(self) -> int:
        """The largest number of resamples of an interval."""

    def value(self) -> float:
        """Returns the statistic of all rows."""

    def part(self, chosen: Sequence[int] | Numbers) -> Statistic:
        """Returns the same statistic for the rows with these numbers; no number may occur twice."""

    def resampled(self, codes: Numbers, *, resamples: int, seed: int) -> Floats:
        """Returns the statistic of each resample of whole clusters.

        Args:
            codes: Cluster of each row (`cluster_codes`).
            resamples: Number of resamples, >= 1; a single cluster has only one, itself.
            seed: Seed of the draws; the same seed draws the same clusters for all statistics.

        Raises:
            ValueError: There is not one code for each row.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """A statistic that is any function of rows; it is computed anew for every part and every resample.

    Attributes:
        function: Returns the statistic of the rows with some numbers, which may occur repeatedly in resamples.
        num_rows: Number of rows.
    """

    function: Callable[[Numbers], float]
    num_rows: int

    @property
    def max_resamples(self) -> int:
        """The largest number of resamples, 1,000, because each costs as much as the statistic itself."""
        return resampling.RESAMPLES_RECOMPUTED

    def value(self) -> float:
        """Returns the statistic of all rows."""
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

    def resampled(self, codes: Numbers, *, resamples: int, seed: int) -> Floats:
        """Returns the statistic of each resample, computed anew."""
        check_codes(codes, self.num_rows)
        order = np.argsort(codes, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
        draws = chain.from_iterable(drawn_clusters(num_clusters(codes), resamples, seed))
        return np.array([self.function(np.concatenate([members[cluster] for cluster in drawn])) for drawn in draws])
