"""Measures how much a statistic of clustered rows varies, by leaving out clusters and rows one at a time (jackknife).

The variance follows a model with one correlation: rows of different clusters are independent, and any two rows of one
cluster have the same correlation. Its estimate uses every cluster alike, whereas the plain jackknife of clusters rests
on a few large ones where sizes differ, and then varies too much itself. The plain jackknife is used where the estimate
is not positive, so that answers about one patient may also balance each other.

Sources:
    Jackknife: Efron & Tibshirani 1993, "An Introduction to the Bootstrap", chapter 11. Correlation by analysis of
    variance: Donner 1986, doi:10.2307/1403259. Design effect of unequal clusters: Kish 1965, "Survey Sampling".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from medtune.eval.statistics import Floats, Numbers, merged, num_clusters, some_rows
from medtune.eval.statistics.column_sums import Statistic

# Answers about one patient are never taken to balance each other so well that the variance is less than half of that
# of independent answers: with two or three patients, equal scores are mostly luck.
_LEAST_DESIGN_EFFECT = 0.5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Term:
    """A statistic with its weight in a sum, such as +1 for the phase after and -1 for the phase before."""

    weight: float
    statistic: Statistic


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How much a statistic varies."""

    value: float
    # What each row, or each of a sample of them, contributes: the value and its influence (pseudo-values).
    rows: Floats
    row_variance: float  # Variance of the contributions of single rows; 0 if all are equal.
    design_effect: float  # The variance of the statistic divided by that of as many independent rows.
    variance: float  # Variance of the statistic; 0 if there is only one cluster, which tells nothing about it.
    num_rows: int
    clusters: int
    equal_clusters: float  # Number of clusters of equal size that would tell as much if each gave only equal rows.
    freedom: float  # Degrees of freedom of the variance, from the kurtosis of the clusters' influences.

    @property
    def is_measured(self) -> bool:
        """True if there are two clusters or more and rows that differ."""
        return self.clusters > 1 and self.row_variance > 0


def spread(terms: Sequence[Term], codes: Numbers) -> Spread:
    """Returns how much a weighted sum of statistics of the same rows varies."""
    most = min(term.statistic.most_left_out for term in terms)
    codes = merged(codes, most)
    values = [term.statistic.value() for term in terms]
    sizes = np.bincount(codes).astype(np.float64)
    total = float(codes.size)

    def influence(each_one: Numbers, chosen: Numbers, left: Floats) -> Floats:
        parts = [
            term.weight * _finite(value - term.statistic.without(each_one, chosen)) * left
            for term, value in zip(terms, values, strict=True)
        ]
        return reduce(np.add, parts)

    number = num_clusters(codes)
    of_clusters = influence(codes, np.arange(number), total - sizes)
    chosen = some_rows(codes.size, most)
    of_rows = influence(np.arange(codes.size), chosen, np.full(chosen.size, total - 1))
    value = math.fsum(term.weight * each for term, each in zip(terms, values, strict=True))
    row_variance = float(np.mean(of_rows**2)) if codes.size > 1 else 0.0
    if row_variance <= (_ROUNDING * max(1.0, *(abs(each) for each in values))) ** 2:
        row_variance = 0.0
    design_effect, variance, freedom = _clustered(of_clusters, sizes, row_variance)
    return Spread(
        value=value,
        rows=value + of_rows,
        row_variance=row_variance,
        design_effect=design_effect,
        variance=variance,
        num_rows=codes.size,
        clusters=number,
        equal_clusters=total**2 / float(sizes @ sizes),
        freedom=freedom,
    )


def _clustered(of_clusters: Floats, sizes: Floats, row_variance: float) -> tuple[float, float, float]:
    total, number = float(sizes.sum()), sizes.size
    largest = float(sizes @ sizes) / total
    if number == 1 or row_variance == 0:
        return largest, 0.0, 1.0
    by_size = float(np.sum(of_clusters**2 / sizes))
    between = by_size / (number - 1)
    within = max(0.0, (total * row_variance - by_size) / (total - number)) if total > number else 0.0
    shared = (between - within) / ((total - largest) / (number - 1))
    if shared > 0:
        correlation = shared / (shared + within)
        design_effect = 1 + (largest - 1) * correlation
        variance = (shared + within) * design_effect / total
    else:
        correlation = 0.0
        jackknife = (number - 1) / number * float(np.sum((of_clusters / (total - sizes)) ** 2))
        design_effect = max(jackknife * total / row_variance, _LEAST_DESIGN_EFFECT)
        variance = row_variance * design_effect / total
    return design_effect, variance, _freedom(of_clusters**2 / (sizes * (1 + (sizes - 1) * correlation)))


def _freedom(squares: Floats) -> float:
    """Returns the degrees of freedom of a mean of squares, 1 to their number less 1.

    Source: Satterthwaite 1946, doi:10.2307/3002019, with the fourth moment of the values in place of the normal one.
    """
    most, mean = float(squares.size - 1), float(np.mean(squares))
    excess = float(np.mean(squares**2)) - mean**2
    return min(max(2 * squares.size * mean**2 / excess, 1.0), most) if excess > 0 else most


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)
