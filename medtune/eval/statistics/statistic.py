"""A number of some rows that can be had of any part of them and of any resample, computed anew or from column sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from medtune.eval.statistics import resampling
from medtune.eval.statistics.resampling import Floats, Numbers, check_codes, drawn_clusters, num_clusters


class Statistic(Protocol):
    """A number of some rows, ready to be asked for on any part of them."""

    @property
    def max_resamples(self) -> int:
        """The number of resamples that an interval takes at most."""

    def value(self) -> float:
        """Returns the number of all rows."""

    def part(self, chosen: Sequence[int] | Numbers) -> Statistic:
        """Returns the same statistic of the rows with these numbers, each of which occurs once."""

    def resampled(self, codes: Numbers, *, resamples: int, seed: int) -> Floats:
        """Returns the number of each resample of whole clusters.

        Args:
            codes: Cluster of each row (`cluster_codes`).
            resamples: How many, >= 1; of a single cluster there is one, itself.
            seed: Seed of the draws; one seed draws the same clusters for all statistics.

        Raises:
            ValueError: There is not one code for each row.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """Any function of rows as a statistic: it is computed anew for every part and every resample.

    Attributes:
        function: Takes row numbers, in resamples with repetition, and returns the number of those rows.
        num_rows: Number of rows.
    """

    function: Callable[[Numbers], float]
    num_rows: int

    @property
    def max_resamples(self) -> int:
        """A thousand: each resample costs as much as the statistic itself."""
        return resampling.RESAMPLES_RECOMPUTED

    def value(self) -> float:
        """Returns the number of all rows."""
        return self.function(np.arange(self.num_rows))

    def part(self, chosen: Sequence[int] | Numbers) -> Recomputed:
        """Returns the same statistic of the rows with these numbers.

        Example:
            >>> values = np.array([1.0, 5.0, 3.0])
            >>> Recomputed(lambda rows: float(np.median(values[rows])), 3).part([0, 1]).value()
            3.0
        """
        numbers = np.asarray(chosen, dtype=np.intp)
        return Recomputed(lambda places: self.function(numbers[places]), len(numbers))

    def resampled(self, codes: Numbers, *, resamples: int, seed: int) -> Floats:
        """Returns the number of each resample, computed anew."""
        check_codes(codes, self.num_rows)
        order = np.argsort(codes, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
        draws = chain.from_iterable(drawn_clusters(num_clusters(codes), resamples, seed))
        return np.array([self.function(np.concatenate([members[cluster] for cluster in drawn])) for drawn in draws])
