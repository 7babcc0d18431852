"""Intervals and tests for answers that come in clusters: several questions about one patient.

Every interval is a percentile bootstrap that resamples whole clusters. Clusters keep their order of
appearance, so other names for the same patients give the same numbers. It errs on the wide side twice:

- Percentile intervals of few clusters are too narrow (a simulated 10 patients: 88-91 % instead of 95 %). They are
  taken further out, by the t quantile and sqrt(G / (G - 1)) of G clusters (93-94 %).
  Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", doi:10.1080/00031305.2015.1089789.
- A bootstrap knows nothing about outcomes that it never saw. Where fewer than `FEW_CLUSTERS` clusters hold a right
  answer, or a wrong one, or where all resamples agree, the interval is widened to contain Wilson's with
  n = number of clusters. An interval without width cannot happen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Interval

RESAMPLES = 10_000
RESAMPLES_RECOMPUTED = 1_000
FEW_CLUSTERS = 5
CONFIDENCE = 0.95
_NUMBERS_AT_ONCE = 4_000_000

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]


def wilson(successes: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's score interval of a share.

    Args:
        successes: 0 to `n`; need not be whole.
        n: Number of independent trials, > 0.
        confidence: Inside (0, 1).

    Raises:
        ValueError: `n` is not positive or `successes` is outside [0, n].

    Example:
        >>> low, high = wilson(1, 2)
        >>> round(low, 4), round(high, 4)
        (0.0945, 0.9055)

    Source:
        Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if not 0 <= successes <= n or n <= 0:
        raise ValueError(f"wilson wants 0 <= successes <= n and n > 0, got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, shrink = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half)


def mcnemar_exact(only_before: int, only_after: int) -> float:
    """Returns the two-sided exact p value of McNemar's test; 1 where no answer changed.

    The test takes questions as independent, which those about one patient are not: read it with the
    clustered interval of the gain.

    Args:
        only_before: Questions right before and wrong after.
        only_after: Questions wrong before and right after.

    Example:
        >>> round(mcnemar_exact(5, 1), 5)
        0.21875

    Source:
        McNemar 1947, doi:10.1007/BF02295996; exact form: binomial test of the discordant pairs.
    """
    from scipy.stats import binomtest

    changed = only_before + only_after
    return float(binomtest(only_before, changed, 0.5).pvalue) if changed else 1.0


def mean_interval(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Returns the 95 % interval of a mean of clustered values.

    Args:
        values: One per question, each within [0, 1]: 1 right, 0 wrong.
        clusters: Patient of each question.
        resamples: Bootstrap resamples, >= 1.
        seed: Of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Efron & Tibshirani 1993, chapters 8 (clusters) and 13 (percentile interval).
    """
    codes = _codes(clusters, values)
    sums, counts = np.bincount(codes, weights=values), np.bincount(codes)
    interval = _percentile((sums, counts), _ratio, vectorized=True, resamples=resamples, seed=seed)
    if _is_unsafe(interval, np.asarray(values), codes):
        interval = _hull(interval, _cluster_wilson(float(sums.sum() / counts.sum()), counts.size))
    return interval


def recomputed_interval(
    statistic: Callable[[Rows], float],
    right: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES_RECOMPUTED,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of any statistic within [0, 1], computed anew from resampled clusters.

    Args:
        statistic: Takes row numbers (with repetition) and returns the value on those rows.
        right: Correctness of each question within [0, 1]: says whether the bootstrap saw enough.
        clusters: Patient of each question.
        resamples: Bootstrap resamples, >= 1.
        seed: Of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No rows, lengths differ, or the statistic leaves [0, 1].
    """
    codes = _codes(clusters, right)
    value = statistic(np.arange(codes.size))
    if not 0 <= value <= 1:
        raise ValueError(f"an interval is computed for statistics within [0, 1]; this one is {value}")
    interval = _recomputed(statistic, codes, resamples=resamples, seed=seed)
    if _is_unsafe(interval, np.asarray(right), codes):
        interval = _hull(interval, _cluster_wilson(value, int(codes.max()) + 1))
    return interval


def gain_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of mean(after) - mean(before), paired by question, resampled by cluster.

    Where fewer than `FEW_CLUSTERS` clusters changed at all, or a stage is all right or all wrong, the interval is
    widened to contain the one that square-and-add makes of the two Wilson intervals with n = number of clusters.
    That takes the two stages as independent, which for paired answers errs on the wide side.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Square-and-add: Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I.
    """
    codes = _codes(clusters, before, after)
    differences = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    sums, counts = np.bincount(codes, weights=differences), np.bincount(codes)
    interval = _percentile((sums, counts), _ratio, vectorized=True, resamples=resamples, seed=seed)
    if _is_unsafe_gain(interval, np.asarray(before), np.asarray(after), codes):
        interval = _hull(interval, _square_and_add(float(np.mean(before)), float(np.mean(after)), counts.size))
    return interval


def recomputed_gain_interval(
    statistic_before: Callable[[Rows], float],
    statistic_after: Callable[[Rows], float],
    right_before: Sequence[float],
    right_after: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES_RECOMPUTED,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of the difference of any statistic: both stages on the same resampled clusters.

    Raises:
        ValueError: No rows or lengths differ.
    """
    codes = _codes(clusters, right_before, right_after)
    interval = _recomputed(
        lambda rows: statistic_after(rows) - statistic_before(rows), codes, resamples=resamples, seed=seed
    )
    if _is_unsafe_gain(interval, np.asarray(right_before), np.asarray(right_after), codes):
        everything = np.arange(codes.size)
        values = statistic_before(everything), statistic_after(everything)
        interval = _hull(interval, _square_and_add(*values, int(codes.max()) + 1))
    return interval


def _codes(clusters: Sequence[str], *columns: Sequence[float]) -> Rows:
    if not clusters:
        raise ValueError("an interval needs at least one question, got none")
    for column in columns:
        if len(column) != len(clusters):
            raise ValueError(f"wanted one value per question, got {len(column)} values for {len(clusters)} clusters")
        if not all(0 <= value <= 1 for value in column):
            raise ValueError("wanted values within [0, 1] (1 right, 0 wrong), got others")
    order: dict[str, int] = {}
    return np.array([order.setdefault(cluster, len(order)) for cluster in clusters], dtype=np.intp)


def _ratio(sums: Floats, counts: Floats, axis: int = -1) -> Floats:
    ratio: Floats = sums.sum(axis=axis) / counts.sum(axis=axis)
    return ratio


def _recomputed(statistic: Callable[[Rows], float], codes: Rows, *, resamples: int, seed: int) -> Interval:
    members = [np.flatnonzero(codes == cluster) for cluster in range(int(codes.max()) + 1)]

    def of_clusters(drawn: Rows) -> float:
        return statistic(np.concatenate([members[cluster] for cluster in drawn]))

    return _percentile((np.arange(len(members)),), of_clusters, vectorized=False, resamples=resamples, seed=seed)


def _percentile(
    columns: tuple[NDArray[np.generic], ...],
    statistic: Callable[..., object],
    *,
    vectorized: bool,
    resamples: int,
    seed: int,
) -> Interval:
    from scipy.stats import bootstrap

    if columns[0].size == 1:
        value = float(np.asarray(statistic(*columns)))
        return Interval(value, value)
    found = bootstrap(
        columns,
        statistic,
        n_resamples=resamples,
        batch=max(1, _NUMBERS_AT_ONCE // columns[0].size),
        vectorized=vectorized,
        paired=True,
        confidence_level=_expanded_confidence(columns[0].size),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))


def _expanded_confidence(num_clusters: int) -> float:
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, num_clusters - 1))
    return 2 * NormalDist().cdf(quantile * math.sqrt(num_clusters / (num_clusters - 1))) - 1


def _is_unsafe(interval: Interval, right: Floats, codes: Rows) -> bool:
    with_right = np.unique(codes[right > 0]).size
    with_wrong = np.unique(codes[right < 1]).size
    return min(with_right, with_wrong) < FEW_CLUSTERS or interval.low == interval.high


def _is_unsafe_gain(interval: Interval, before: Floats, after: Floats, codes: Rows) -> bool:
    is_unanimous = any(stage.min() == stage.max() for stage in (before, after))
    with_change = np.unique(codes[before != after]).size
    return is_unanimous or with_change < FEW_CLUSTERS or interval.low == interval.high


def _cluster_wilson(value: float, num_clusters: int) -> Interval:
    return wilson(min(value * num_clusters, num_clusters), num_clusters)


def _square_and_add(before: float, after: float, num_clusters: int) -> Interval:
    first, second = _cluster_wilson(before, num_clusters), _cluster_wilson(after, num_clusters)
    return Interval(
        after - before - math.hypot(after - second.low, first.high - before),
        after - before + math.hypot(second.high - after, before - first.low),
    )


def _hull(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))
