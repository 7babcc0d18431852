"""Computes 95 % intervals of answers that come in clusters, because several questions are about one patient.

Every interval is a percentile bootstrap that resamples whole clusters. In two cases it is made wider:

- Percentile intervals of few clusters are too narrow: with 10 simulated patients they contain the truth in 88-91 % of
  all cases. The percentiles are therefore taken further out, by the t quantile and sqrt(G / (G - 1)) for G clusters,
  which gives 93-94 %.
  Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", doi:10.1080/00031305.2015.1089789.
- A bootstrap cannot tell how likely outcomes are that do not occur in the data. If fewer than `FEW_CLUSTERS` clusters
  have a right answer, or a wrong one, or if all resamples agree, the interval is widened to contain Wilson's interval
  with n = number of clusters. Only a statistic without bounds, such as an error in mm, can have an interval of width 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from medtune.data.types import Interval
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.resampling import RESAMPLES_RECOMPUTED, Floats, Numbers, cluster_codes, num_clusters
from medtune.eval.statistics.statistic import Statistic

FEW_CLUSTERS = 5
CONFIDENCE = 0.95
SHARE = Interval(0.0, 1.0)
_DRAWS = 20_000_000


def wilson(successes: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's score interval of a share.

    Args:
        successes: Number of successes, 0 to `n`; it need not be whole.
        n: Number of independent trials, > 0.
        confidence: The confidence level, between 0 and 1.

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


def mean_interval(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int | None = None, seed: int = 0
) -> Interval:
    """Returns the 95 % interval of a mean of clustered values.

    Args:
        values: One per question, each within [0, 1]: 1 right, 0 wrong.
        clusters: Patient of each question.
        resamples: Number of bootstrap resamples, >= 1; see `statistic_interval`.
        seed: Seed of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Efron & Tibshirani 1993, chapters 8 (clusters) and 13 (percentile interval).
    """
    return statistic_interval(mean_of(values), clusters, right=values, resamples=resamples, seed=seed)


def statistic_interval(
    statistic: Statistic,
    clusters: Sequence[str],
    *,
    right: Sequence[float] | None,
    bounds: Interval = SHARE,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of any statistic of clustered questions.

    Args:
        statistic: The statistic, with one row per question.
        clusters: Patient of each question.
        right: Correctness of each answer, 0 to 1, which tells whether there are enough right and wrong answers; None
            if answers are not simply right or wrong.
        bounds: Lowest and highest possible value. If one of them is infinite, the interval is never widened.
        resamples: Number of bootstrap resamples, >= 1. The default is the statistic's `max_resamples`, or fewer for
            thousands of clusters, but at least `RESAMPLES_RECOMPUTED`.
        seed: Seed of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No rows, lengths differ, or the statistic leaves its bounds.
    """
    codes = cluster_codes(clusters, right)
    value = _within(statistic.value(), bounds)
    found = statistic.resampled(codes, resamples=resamples or _resamples(statistic, codes), seed=seed)
    return _widened(_percentile(found, codes), value, right, codes, bounds)


def gain_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of mean(after) - mean(before), paired by question, resampled by cluster.

    If fewer than `FEW_CLUSTERS` clusters have a changed answer, or a phase is all right or all wrong, the interval is
    widened to contain the one that the square-and-add method makes of the two Wilson intervals with n = number of
    clusters. This method takes the two phases as independent, which makes the interval of paired answers too wide
    rather than too narrow.

    Args:
        before: One value per question, each within [0, 1]: 1 right, 0 wrong.
        after: The values of the same questions in the other phase.
        clusters: Patient of each question.
        resamples: Number of bootstrap resamples, >= 1; see `statistic_interval`.
        seed: Seed of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Square-and-add: Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I.
    """
    phases = mean_of(before), mean_of(after)
    return statistic_gain_interval(*phases, clusters, right=(before, after), resamples=resamples, seed=seed)


def statistic_gain_interval(
    before: Statistic,
    after: Statistic,
    clusters: Sequence[str],
    *,
    right: tuple[Sequence[float], Sequence[float]] | None,
    bounds: Interval = SHARE,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of the difference after - before, both phases on the same resampled clusters.

    The arguments are those of `statistic_interval`; `right` holds the correctness before and after. The interval is
    widened as in `gain_interval`.

    Raises:
        ValueError: No rows or lengths differ.
    """
    codes = cluster_codes(clusters, *(right or ()))
    number = resamples or _resamples(before, codes)
    earlier, later = (each.resampled(codes, resamples=number, seed=seed) for each in (before, after))
    return _widened_gain(_percentile(later - earlier, codes), (before.value(), after.value()), right, codes, bounds)


def _within(value: float, bounds: Interval) -> float:
    if not bounds.low <= value <= bounds.high:
        raise ValueError(f"an interval is computed for statistics within {list(bounds)}; this one is {value}")
    return value


def _resamples(statistic: Statistic, codes: Numbers) -> int:
    return min(statistic.max_resamples, max(RESAMPLES_RECOMPUTED, _DRAWS // num_clusters(codes)))


def _percentile(found: Floats, codes: Numbers) -> Interval:
    if len(found) == 1:
        return Interval(float(found[0]), float(found[0]))
    outside = (1 - _expanded_confidence(num_clusters(codes))) / 2
    # A resample may contain no row that the statistic is about; it then has no value.
    low, high = np.quantile(found[~np.isnan(found)], [outside, 1 - outside])
    return Interval(float(low), float(high))


def _expanded_confidence(number: int) -> float:
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, number - 1))
    return 2 * NormalDist().cdf(quantile * math.sqrt(number / (number - 1))) - 1


def _widened(
    interval: Interval, value: float, right: Sequence[float] | None, codes: Numbers, bounds: Interval
) -> Interval:
    if not _is_finite(bounds) or not (interval.low == interval.high or _saw_too_little(right, codes)):
        return interval
    span = bounds.high - bounds.low
    low, high = _cluster_wilson((value - bounds.low) / span, num_clusters(codes))
    return _hull(interval, Interval(bounds.low + span * low, bounds.low + span * high))


def _saw_too_little(right: Sequence[float] | None, codes: Numbers) -> bool:
    if right is None:
        return num_clusters(codes) < FEW_CLUSTERS
    each = np.asarray(right)
    return min(np.unique(codes[each > 0]).size, np.unique(codes[each < 1]).size) < FEW_CLUSTERS


def _widened_gain(
    interval: Interval,
    values: tuple[float, float],
    right: tuple[Sequence[float], Sequence[float]] | None,
    codes: Numbers,
    bounds: Interval,
) -> Interval:
    if not _is_finite(bounds) or not (interval.low == interval.high or _saw_too_little_change(right, codes)):
        return interval
    span = bounds.high - bounds.low
    shares = [(value - bounds.low) / span for value in values]
    low, high = _square_and_add(shares[0], shares[1], num_clusters(codes))
    return _hull(interval, Interval(span * low, span * high))


def _saw_too_little_change(right: tuple[Sequence[float], Sequence[float]] | None, codes: Numbers) -> bool:
    if right is None:
        return num_clusters(codes) < FEW_CLUSTERS
    before, after = (np.asarray(phase) for phase in right)
    is_unanimous = any(phase.min() == phase.max() for phase in (before, after))
    return bool(is_unanimous or np.unique(codes[before != after]).size < FEW_CLUSTERS)


def _is_finite(bounds: Interval) -> bool:
    return math.isfinite(bounds.low) and math.isfinite(bounds.high)


def _cluster_wilson(share: float, number: int) -> Interval:
    return wilson(min(share * number, number), number)


def _square_and_add(before: float, after: float, number: int) -> Interval:
    first, second = _cluster_wilson(before, number), _cluster_wilson(after, number)
    return Interval(
        after - before - math.hypot(after - second.low, first.high - before),
        after - before + math.hypot(second.high - after, before - first.low),
    )


def _hull(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))
