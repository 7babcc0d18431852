"""Intervals and tests for answers that come in clusters: several questions about one patient.

Every interval is a percentile bootstrap that resamples whole clusters. Clusters keep their order of
appearance, so other names for the same patients give the same numbers. It errs on the wide side twice:

- Percentile intervals of few clusters are too narrow (a simulated 10 patients: 88-91 % instead of 95 %). They are
  taken further out, by the t quantile and sqrt(G / (G - 1)) of G clusters (93-94 %).
  Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", doi:10.1080/00031305.2015.1089789.
- A bootstrap knows nothing about outcomes that it never saw. Where fewer than `FEW_CLUSTERS` clusters hold a right
  answer, or a wrong one, or where all resamples agree, the interval is widened to contain Wilson's with
  n = number of clusters. An interval without width cannot happen, but for statistics without bounds, such as RMSE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Interval
from medtune.eval.statistics.summed_metric import Floats, Sums, mean_of

RESAMPLES = 10_000
RESAMPLES_RECOMPUTED = 1_000
FEW_CLUSTERS = 5
CONFIDENCE = 0.95
SHARE = Interval(0.0, 1.0)
_NUMBERS_AT_ONCE = 2_000_000
_DRAWS = 20_000_000
_KEPT_DRAWS = 4

Rows = NDArray[np.intp]


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
    values: Sequence[float], clusters: Sequence[str], *, resamples: int | None = None, seed: int = 0
) -> Interval:
    """Returns the 95 % interval of a mean of clustered values.

    Args:
        values: One per question, each within [0, 1]: 1 right, 0 wrong.
        clusters: Patient of each question.
        resamples: Bootstrap resamples, >= 1; see `summed_interval`.
        seed: Of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Efron & Tibshirani 1993, chapters 8 (clusters) and 13 (percentile interval).
    """
    return summed_interval(mean_of(values), clusters, right=values, resamples=resamples, seed=seed)


def summed_interval(
    sums: Sums,
    clusters: Sequence[str],
    *,
    right: Sequence[float] | None,
    bounds: Interval = SHARE,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of a statistic that column sums determine.

    Args:
        sums: One row per question.
        clusters: Patient of each question.
        right: Correctness of each question within [0, 1]: says whether the bootstrap saw enough; None where answers
            are not right or wrong.
        bounds: Lowest and highest possible value. Where one is infinite, nothing can widen the interval.
        resamples: Bootstrap resamples, >= 1. By default `RESAMPLES`, and fewer, down to `RESAMPLES_RECOMPUTED`, where
            there are thousands of clusters.
        seed: Of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No rows, lengths differ, or the statistic leaves its bounds.
    """
    codes = cluster_codes(clusters, right)
    value = _within(sums.value(), bounds)
    found = resampled_sums(sums, codes, resamples=resamples or _resamples(codes), seed=seed)
    return _widened(_percentile(found, codes), value, right, codes, bounds)


def recomputed_interval(
    statistic: Callable[[Rows], float],
    right: Sequence[float] | None,
    clusters: Sequence[str],
    *,
    bounds: Interval = SHARE,
    resamples: int = RESAMPLES_RECOMPUTED,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of any statistic, computed anew from resampled clusters.

    Args:
        statistic: Takes row numbers (with repetition) and returns the value on those rows.
        right: As in `summed_interval`.
        clusters: Patient of each question.
        bounds: Lowest and highest possible value.
        resamples: Bootstrap resamples, >= 1.
        seed: Of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: No rows, lengths differ, or the statistic leaves its bounds.
    """
    codes = cluster_codes(clusters, right)
    value = _within(statistic(np.arange(codes.size)), bounds)
    found = resampled_rows(statistic, codes, resamples=resamples, seed=seed)
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

    Where fewer than `FEW_CLUSTERS` clusters changed at all, or a phase is all right or all wrong, the interval is
    widened to contain the one that square-and-add makes of the two Wilson intervals with n = number of clusters.
    That takes the two phases as independent, which for paired answers errs on the wide side.

    Raises:
        ValueError: No values, lengths differ, or a value is outside [0, 1].

    Source:
        Square-and-add: Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I.
    """
    phases = mean_of(before), mean_of(after)
    return summed_gain_interval(*phases, clusters, right=(before, after), resamples=resamples, seed=seed)


def summed_gain_interval(
    before: Sums,
    after: Sums,
    clusters: Sequence[str],
    *,
    right: tuple[Sequence[float], Sequence[float]] | None,
    bounds: Interval = SHARE,
    resamples: int | None = None,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of the difference of such statistics: both phases on the same resampled clusters.

    The arguments are those of `summed_interval`, `right` before and after. It is widened as in `gain_interval`.

    Raises:
        ValueError: No rows or lengths differ.
    """
    codes = cluster_codes(clusters, *(right or ()))
    number = resamples or _resamples(codes)
    earlier, later = (resampled_sums(each, codes, resamples=number, seed=seed) for each in (before, after))
    return _widened_gain(_percentile(later - earlier, codes), (before.value(), after.value()), right, codes, bounds)


def recomputed_gain_interval(
    statistic_before: Callable[[Rows], float],
    statistic_after: Callable[[Rows], float],
    right: tuple[Sequence[float], Sequence[float]] | None,
    clusters: Sequence[str],
    *,
    bounds: Interval = SHARE,
    resamples: int = RESAMPLES_RECOMPUTED,
    seed: int = 0,
) -> Interval:
    """Returns the 95 % interval of the difference of any statistic: both phases on the same resampled clusters.

    The arguments are those of `recomputed_interval`. It is widened as in `gain_interval`.

    Raises:
        ValueError: No rows or lengths differ.
    """
    codes = cluster_codes(clusters, *(right or ()))
    found = resampled_rows(
        lambda rows: statistic_after(rows) - statistic_before(rows), codes, resamples=resamples, seed=seed
    )
    everything = np.arange(codes.size)
    values = statistic_before(everything), statistic_after(everything)
    return _widened_gain(_percentile(found, codes), values, right, codes, bounds)


def cluster_codes(clusters: Sequence[str], *columns: Sequence[float] | None) -> Rows:
    """Returns the number of each question's cluster, by order of appearance; ValueError as in `mean_interval`."""
    if not clusters:
        raise ValueError("an interval needs at least one question, got none")
    for column in columns:
        if column is None:
            continue
        if len(column) != len(clusters):
            raise ValueError(f"wanted one value per question, got {len(column)} values for {len(clusters)} clusters")
        if not np.all((np.asarray(column) >= 0) & (np.asarray(column) <= 1)):
            raise ValueError("wanted values within [0, 1] (1 right, 0 wrong), got others")
    order: dict[str, int] = {}
    return np.array([order.setdefault(cluster, len(order)) for cluster in clusters], dtype=np.intp)


def _within(value: float, bounds: Interval) -> float:
    if not bounds.low <= value <= bounds.high:
        raise ValueError(f"an interval is computed for statistics within {list(bounds)}; this one is {value}")
    return value


def _resamples(codes: Rows) -> int:
    return min(RESAMPLES, max(RESAMPLES_RECOMPUTED, _DRAWS // _num_clusters(codes)))


def _num_clusters(codes: Rows) -> int:
    return int(codes.max()) + 1


def resampled_sums(sums: Sums, codes: Rows, *, resamples: int, seed: int) -> Floats:
    """Returns the statistic of each resample; one seed draws the same clusters for all statistics."""
    from scipy.sparse import coo_array

    if sums.num_rows != codes.size:
        raise ValueError(f"wanted one row of sums per question, got {sums.num_rows} for {codes.size} questions")
    num_clusters = _num_clusters(codes)
    entries = (sums.values, (codes[sums.rows], sums.columns))
    by_cluster = coo_array(entries, shape=(num_clusters, sums.width)).tocsr()
    if num_clusters * sums.width <= _NUMBERS_AT_ONCE:
        by_cluster = by_cluster.toarray()
    times = _times_drawn(num_clusters, resamples, seed)
    at_once = max(1, _NUMBERS_AT_ONCE // max(sums.width, num_clusters))
    parts = (times[start : start + at_once].astype(np.float64) for start in range(0, len(times), at_once))
    return np.concatenate([sums.finish(part @ by_cluster) for part in parts])


def resampled_rows(statistic: Callable[[Rows], float], codes: Rows, *, resamples: int, seed: int) -> Floats:
    """Returns the statistic of each resample, computed anew; the clusters are those of `resampled_sums`."""
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return np.array(
        [
            statistic(np.concatenate([members[cluster] for cluster in drawn]))
            for drawn in chain.from_iterable(_drawn(len(members), resamples, seed))
        ]
    )


def _drawn(num_clusters: int, resamples: int, seed: int) -> Iterator[Rows]:
    """Yields (some resamples, clusters) drawn cluster numbers; a single cluster has one resample, itself."""
    if num_clusters == 1:
        yield np.zeros((1, 1), dtype=np.intp)
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, _NUMBERS_AT_ONCE // num_clusters)
    for start in range(0, resamples, at_once):
        yield rng.integers(0, num_clusters, (min(at_once, resamples - start), num_clusters))


@lru_cache(maxsize=_KEPT_DRAWS)
def _times_drawn(num_clusters: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Returns how often each resample holds each cluster; levels and metrics of a phase mostly share their draws."""
    found = []
    for drawn in _drawn(num_clusters, resamples, seed):
        places = drawn + num_clusters * np.arange(len(drawn))[:, None]
        times = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
        found.append(times.astype(np.uint16))
    return np.concatenate(found)


def _percentile(found: Floats, codes: Rows) -> Interval:
    if len(found) == 1:
        return Interval(float(found[0]), float(found[0]))
    outside = (1 - _expanded_confidence(_num_clusters(codes))) / 2
    # A resample may lack every row that the statistic is about; there it has no value.
    low, high = np.quantile(found[~np.isnan(found)], [outside, 1 - outside])
    return Interval(float(low), float(high))


def _expanded_confidence(num_clusters: int) -> float:
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, num_clusters - 1))
    return 2 * NormalDist().cdf(quantile * math.sqrt(num_clusters / (num_clusters - 1))) - 1


def _widened(
    interval: Interval, value: float, right: Sequence[float] | None, codes: Rows, bounds: Interval
) -> Interval:
    if not _is_finite(bounds) or not (interval.low == interval.high or _saw_too_little(right, codes)):
        return interval
    span = bounds.high - bounds.low
    low, high = _cluster_wilson((value - bounds.low) / span, _num_clusters(codes))
    return _hull(interval, Interval(bounds.low + span * low, bounds.low + span * high))


def _saw_too_little(right: Sequence[float] | None, codes: Rows) -> bool:
    if right is None:
        return _num_clusters(codes) < FEW_CLUSTERS
    each = np.asarray(right)
    return min(np.unique(codes[each > 0]).size, np.unique(codes[each < 1]).size) < FEW_CLUSTERS


def _widened_gain(
    interval: Interval,
    values: tuple[float, float],
    right: tuple[Sequence[float], Sequence[float]] | None,
    codes: Rows,
    bounds: Interval,
) -> Interval:
    if not _is_finite(bounds) or not (interval.low == interval.high or _saw_too_little_change(right, codes)):
        return interval
    span = bounds.high - bounds.low
    shares = [(value - bounds.low) / span for value in values]
    low, high = _square_and_add(shares[0], shares[1], _num_clusters(codes))
    return _hull(interval, Interval(span * low, span * high))


def _saw_too_little_change(right: tuple[Sequence[float], Sequence[float]] | None, codes: Rows) -> bool:
    if right is None:
        return _num_clusters(codes) < FEW_CLUSTERS
    before, after = (np.asarray(phase) for phase in right)
    is_unanimous = any(phase.min() == phase.max() for phase in (before, after))
    return bool(is_unanimous or np.unique(codes[before != after]).size < FEW_CLUSTERS)


def _is_finite(bounds: Interval) -> bool:
    return math.isfinite(bounds.low) and math.isfinite(bounds.high)


def _cluster_wilson(share: float, num_clusters: int) -> Interval:
    return wilson(min(share * num_clusters, num_clusters), num_clusters)


def _square_and_add(before: float, after: float, num_clusters: int) -> Interval:
    first, second = _cluster_wilson(before, num_clusters), _cluster_wilson(after, num_clusters)
    return Interval(
        after - before - math.hypot(after - second.low, first.high - before),
        after - before + math.hypot(second.high - after, before - first.low),
    )


def _hull(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))
