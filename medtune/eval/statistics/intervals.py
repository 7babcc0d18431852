"""Computes 95 % intervals of answers that come in clusters, because several questions are about one patient.

No interval draws random numbers. The variance of a statistic is measured by leaving out patients (`spread`), and gives
the effective number of questions: as many independent questions would tell as much. With this number, a value between
two bounds has Wilson's interval, and a gain has Tango's interval of paired shares; neither can leave its bounds. A
value without bounds, such as an error in mm, has the t interval. These score intervals hold all values that a test
would not reject, with the variance that each value implies: they have a width where all answers agree, and hold the
truth as often as they say where answers are few. Three things widen an interval of few patients:

- The normal quantile is replaced by that of t. The degrees of freedom are the number of patients with a wrong answer,
  or with a right one if those are fewer (for a gain: with a changed answer), and at most the number of patients less
  one. Where answers are not simply right or wrong, they follow from the kurtosis of the patients' influences.
- If fewer than 8 patients have a wrong answer in a phase, or a right one, a gain also contains the interval that
  follows from those of its two phases: ten patients that are all wrong do not prove that nobody can be right.
- If no patient has a wrong answer, or none a right one, or no answer changed, the effective number is that of patients,
  as if all answers about a patient were equal. With other answers it is at least this number, made smaller by t.

How often simulated intervals hold the truth, with 2 to 200 patients: docs/intervals.md.

Sources:
    Effective number in a score interval, t quantile: Korn & Graubard 1998, Survey Methodology 24(2), 193-201; Dean &
    Pagano 2015, doi:10.1093/jssam/smv024.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from medtune.data.types import Interval
from medtune.eval.statistics import Clusters, Floats, Numbers, cluster_codes
from medtune.eval.statistics.column_sums import Statistic, mean_of
from medtune.eval.statistics.spread import Spread, Term, spread

CONFIDENCE = 0.95
_BESIDE = 1e-9
METHOD = (
    "Wilson's score interval, for differences Tango's, of the effective number of questions with patients as clusters "
    "and t quantiles; for values without bounds the t interval"
)
OVER_FOLDS = "; the wider of the two with patients and with the folds of the cross-validation as clusters"
_UNEQUAL = (
    "; CAUTION: the patients are few and have unequal numbers of questions, and if the score goes with that number, "
    "intervals hold the truth less often (in 87 to 92 of 100 simulated studies of 5 to 10 very unequal patients)"
)
SHARE = Interval(0.0, 1.0)
# With this number of patients with a changed answer, all changed alike, the sign-flip test does not reject yet.
_FEW_CHANGED = 4
# With this number of patients with a wrong answer, or with a right one, a phase tells how much it varies.
_FEW_TELLING = 8
_ROUNDING = 1e-9

_MANY, _UNEQUAL_CV = 50, 0.5


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """Returns the quantile of the normal distribution for a two-sided interval."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def t_quantile(freedom: float) -> float:
    """Returns the quantile of Student's t distribution for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def wilson(successes: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's score interval of a share; successes and trials `n` > 0 need not be whole.

    >>> low, high = wilson(1, 2)
    >>> round(low, 4), round(high, 4)
    (0.0945, 0.9055)

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953.
    """
    if not 0 <= successes <= n or n <= 0:
        raise ValueError(f"wilson wants 0 <= successes <= n and n > 0, got {successes} of {n}")
    z = normal_quantile(confidence)
    share, shrink = successes / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half)


def difference_of_two(first: tuple[float, Interval], second: tuple[float, Interval], *, correlation: float) -> Interval:
    """Returns the interval of second - first that follows from the intervals of the two.

    Args:
        correlation: Correlation of the two values, 0 to 1.

    >>> low, high = difference_of_two((0.15, wilson(1.5, 10)), (0.0, wilson(0, 10)), correlation=0.0)
    >>> round(low, 3), round(high, 3)
    (-0.459, 0.15)

    Source: Square-and-add: Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I; with a
    correlation: Zou & Donner 2008, doi:10.1002/sim.3095.
    """

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))

    (before, of_before), (after, of_after) = first, second
    return Interval(
        after - before - reach(after - of_after.low, of_before.high - before),
        after - before + reach(of_after.high - after, before - of_before.low),
    )


def tango(up: float, down: float, n: float) -> Interval:
    """Returns Tango's score interval of the difference of two paired shares.

    Args:
        up: Share of the pairs that are wrong before and right after.
        down: Share of the pairs that are right before and wrong after; `up + down` is at most 1.
        n: Number of independent pairs, > 0; it need not be whole.

    >>> low, high = tango(0, 0, 40)
    >>> round(low, 4), round(high, 4)
    (-0.0876, 0.0876)

    Source: Tango 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B.
    """
    from scipy.optimize import brentq

    if up < 0 or down < 0 or up + down > 1 + 1e-9 or n <= 0:
        raise ValueError(f"tango wants shares that are >= 0, add up to at most 1, and n > 0, got {up}, {down}, {n}")
    z, difference = normal_quantile(), up - down

    def outside(true: float) -> float:
        return (difference - true) ** 2 * n - z * z * _variance_of_a_pair(up, down, true)

    def limit(end: float) -> float:
        # At the difference itself, the variance may be 0: without any change, or if every pair changed alike.
        beside = difference + (end - difference) * _BESIDE
        return float(brentq(outside, beside, end)) if outside(end) > 0 > outside(beside) else end

    low, high = limit(-1.0), limit(1.0)
    return Interval(low, high)


def _variance_of_a_pair(up: float, down: float, true: float) -> float:
    if true < 0:
        up, down, true = down, up, -true
    linear = up + down - true * (2 - up + down)
    least = max(0.0, (linear + math.sqrt(linear * linear + 8 * down * true * (1 - true))) / 4)
    return 2 * least + true - true * true


def method_for(clusters: Sequence[str], *, folds: int = 0) -> str:
    """Returns the name of the method, with a caution if there are few and unequal patients.

    These are fewer than 50, whose numbers of questions have a coefficient of variation above 0.5. The answers do not
    tell whether the interval is too narrow: it is where patients with many questions are missing among the few, which
    cannot be seen (docs/intervals.md).

    >>> method_for(["a"] * 90 + ["b", "c", "d", "e"]) == METHOD, method_for(["a", "b", "c", "d"] * 9) == METHOD
    (False, True)
    """
    sizes = np.unique(np.asarray(clusters, dtype=np.str_), return_counts=True)[1]
    is_caution = 1 < sizes.size < _MANY and float(sizes.std()) > _UNEQUAL_CV * float(sizes.mean())
    method = METHOD + OVER_FOLDS if folds > 1 else METHOD
    return method + _UNEQUAL if is_caution else method


@dataclass(frozen=True, slots=True)
class Limits:
    """An interval and what it was made of."""

    interval: Interval
    effective: float | None  # As many independent questions tell as much; None for the t interval.
    freedom: float | None  # Degrees of freedom of the t quantile; None where patients do not differ.
    is_wider: bool = False  # Whether those of the two phases of a gain made it wider.


@dataclass(frozen=True, slots=True)
class SecondPart:
    """A second source of variance, such as the seeds of several runs."""

    variance: float
    freedom: float


def mean_interval(values: Sequence[float], clusters: Clusters) -> Interval:
    """Returns the 95 % interval of a mean of clustered values, one per question, each within [0, 1].

    >>> low, high = mean_interval([1, 1, 0, 1], ["a", "b", "c", "d"])
    >>> round(low, 3), round(high, 3)
    (0.163, 0.979)
    """
    return statistic_interval(mean_of(values), clusters, right=values)


def statistic_interval(
    statistic: Statistic, clusters: Clusters, *, right: Sequence[float] | Floats | None, bounds: Interval = SHARE
) -> Interval:
    """Returns the 95 % interval of any statistic of clustered questions that changes little with a single row.

    Args:
        right: Correctness of each answer, 0 to 1, which tells how many patients have wrong and right answers; None if
            answers are not simply right or wrong.
    """
    return statistic_limits(statistic, clusters, right=right, bounds=bounds).interval


def statistic_limits(
    statistic: Statistic, clusters: Clusters, *, right: Sequence[float] | Floats | None, bounds: Interval = SHARE
) -> Limits:
    """Returns the interval of `statistic_interval` with what it was made of."""
    codes = cluster_codes(clusters, right)
    found = spread([Term(1.0, statistic)], codes)
    if not bounds.low <= found.value <= bounds.high:
        raise ValueError(f"an interval is computed for statistics within {list(bounds)}; this one is {found.value}")
    telling = None if right is None else _fewest(codes, np.asarray(right) > 0, np.asarray(right) < 1)
    freedom = _freedom(found, telling)
    if not _is_finite(bounds):
        return _t_limits(found, freedom, bounds, None)
    span = bounds.high - bounds.low
    share = min(max((found.value - bounds.low) / span, 0.0), 1.0)
    one = share * (1 - share)
    if telling == 0 or not found.is_measured or one == 0:
        n, used = found.equal_clusters, None
    else:
        n, used = _effective(found, one * span**2, freedom, found.clusters - 1), freedom
    low, high = wilson(share * n, n)
    return Limits(Interval(bounds.low + span * low, bounds.low + span * high), n, used)


def over_folds(of: Callable[[Clusters], Interval], clusters: Clusters, folds: Sequence[str]) -> Interval:
    """Returns the wider of the intervals with patients and with folds as clusters; that of patients without folds.

    The models of a cross-validation differ, which patients do not show: answers of one fold come from one model. With
    few folds the interval by folds is wide, for a handful of trainings says little about how much trainings vary.

    Args:
        of: Returns the interval for the clusters of the rows.

    Source: There is no estimate without bias, because trainings share patients: Bengio & Grandvalet 2004, JMLR 5,
    1089-1105. The folds as a sample of their own: Dietterich 1998, doi:10.1162/089976698300017197, section 3.3. That
    the wider one is taken is our own choice; docs/intervals.md has its coverage.
    """
    by_patient = of(clusters)
    if len(set(folds)) < 2:
        return by_patient
    by_fold = of(folds)
    return Interval(min(by_patient.low, by_fold.low), max(by_patient.high, by_fold.high))


def gain_interval(before: Sequence[float], after: Sequence[float], clusters: Clusters) -> Interval:
    """Returns the 95 % interval of mean(after) - mean(before), paired by question, with patients as clusters."""
    return statistic_gain_interval(mean_of(before), mean_of(after), clusters, right=(before, after))


def statistic_gain_interval(
    before: Statistic,
    after: Statistic,
    clusters: Clusters,
    *,
    right: tuple[Sequence[float] | Floats, Sequence[float] | Floats] | None,
    bounds: Interval = SHARE,
) -> Interval:
    """Returns the 95 % interval of the difference after - before, paired by question.

    The arguments are those of `statistic_interval`; `right` holds the correctness before and after.
    """
    return statistic_gain_limits(before, after, clusters, right=right, bounds=bounds).interval


def statistic_gain_limits(
    before: Statistic,
    after: Statistic,
    clusters: Clusters,
    *,
    right: tuple[Sequence[float] | Floats, Sequence[float] | Floats] | None,
    bounds: Interval = SHARE,
) -> Limits:
    """Returns the interval of `statistic_gain_interval` with what it was made of."""
    codes = cluster_codes(clusters, *(right or ()))
    found = spread([Term(-1.0, before), Term(1.0, after)], codes)
    if right is None:
        return gain_limits(found, codes, None, bounds=bounds)
    phases = [np.asarray(phase, dtype=np.float64) for phase in right]
    limits = gain_limits(found, codes, (phases[1] - phases[0])[None], bounds=bounds)
    if not _is_finite(bounds) or min(_fewest(codes, phase > 0, phase < 1) for phase in phases) >= _FEW_TELLING:
        return limits
    # What hardly occurs in a phase varies more than the differences of the patients show.
    own = [
        statistic_interval(each, clusters, right=phase.tolist(), bounds=bounds)
        for each, phase in zip((before, after), phases, strict=True)
    ]
    wide = difference_of_two(
        (before.value(), own[0]), (after.value(), own[1]), correlation=_correlation(codes, *phases)
    )
    low, high = limits.interval
    widest = Interval(min(low, wide.low), max(high, wide.high))
    return replace(limits, interval=widest, is_wider=widest != limits.interval)


def gain_limits(
    found: Spread, codes: Numbers, changes: Floats | None, *, bounds: Interval = SHARE, second: SecondPart | None = None
) -> Limits:
    """Returns the 95 % interval of a gain whose spread is known.

    Args:
        changes: Correctness after minus before, a line for each run and a column for each row; None if answers are not
            simply right or wrong.
        bounds: Lowest and highest possible value of each phase.
        second: A second source of variance, such as the seeds of several runs.
    """
    telling = changed = None
    if changes is not None:
        changed = _fewest(codes, (changes != 0).any(0))
        telling = min(changed, _fewest(codes, (changes < 1).any(0), (changes > -1).any(0)))
    freedom = _freedom(found, telling)
    if not _is_finite(bounds):
        return _t_limits(found, freedom, Interval(-math.inf, math.inf), second)
    span = bounds.high - bounds.low
    gain = min(max(found.value / span, -1.0), 1.0)
    # A few metrics have rows that contribute more than the span; the shares of changed answers cannot.
    down = min(max(float(np.mean(np.maximum(-found.rows / span, 0.0))), -gain, 0.0), (1 - gain) / 2)
    up = max(0.0, gain + down)
    one = up + down - gain**2
    used: float | None = freedom
    if telling == 0 or not found.is_measured or one <= 0:
        n, used = found.equal_clusters, None
    elif second is None or second.variance == 0:
        n = _effective(found, one * span**2, freedom, max(_freedom(found, changed), _FEW_CHANGED))
    else:
        n = _effective_of_two(found, one * span**2, freedom, second)
    low, high = tango(up, down, n)
    return Limits(Interval(span * low, span * high), n, used)


def _effective(found: Spread, variance_of_one: float, freedom: float, freedom_of_patients: float) -> float:
    """Returns the number of independent questions that gives the interval by normal quantiles.

    Args:
        variance_of_one: Variance of one independent question in the score interval.
        freedom_of_patients: Degrees of freedom if all answers about a patient were equal, which is the least that the
            answers can tell.
    """
    z = normal_quantile()
    # Values between right and wrong vary less than the score interval takes for granted.
    ratio = variance_of_one / found.row_variance
    questions = found.num_rows / found.design_effect * (z / t_quantile(freedom)) ** 2
    patients = found.equal_clusters * (z / t_quantile(min(freedom_of_patients, found.clusters - 1))) ** 2
    return max(questions, patients) * ratio


def _effective_of_two(found: Spread, variance_of_one: float, freedom: float, second: SecondPart) -> float:
    first = found.row_variance * found.design_effect / found.num_rows
    quantile = _weighted(t_quantile(freedom), first, second)
    return variance_of_one / (first + second.variance) * (normal_quantile() / quantile) ** 2


def _t_limits(found: Spread, freedom: float, bounds: Interval, second: SecondPart | None) -> Limits:
    if not found.is_measured:
        return Limits(Interval(found.value, found.value), None, None)
    quantile, variance = t_quantile(freedom), found.variance
    if second is not None:
        quantile = _weighted(quantile, variance, second)
        variance += second.variance
    half = quantile * math.sqrt(variance)
    interval = Interval(max(bounds.low, found.value - half), min(bounds.high, found.value + half))
    return Limits(interval, None, freedom)


def _weighted(quantile: float, variance: float, second: SecondPart) -> float:
    """Returns the mean of the quantiles of both parts, weighted by their variances.

    Source: Cochran & Cox 1957, "Experimental Designs", section 4.14; it is wider than the interval with Satterthwaite's
    degrees of freedom, which covers 88 % where two seeds differ much.
    """
    return (quantile * variance + t_quantile(second.freedom) * second.variance) / (variance + second.variance)


def _freedom(found: Spread, telling: int | None) -> float:
    return found.freedom if telling is None else float(max(min(telling, found.clusters - 1), 1))


def _fewest(codes: Numbers, *kinds: ArrayLike) -> int:
    return min(np.unique(codes[np.asarray(kind, dtype=np.bool_)]).size for kind in kinds)


def _correlation(codes: Numbers, before: Floats, after: Floats) -> float:
    of_patients = [np.bincount(codes, weights=phase - phase.mean()) for phase in (before, after)]
    lengths = [float(np.linalg.norm(each)) for each in of_patients]
    if min(lengths) < _ROUNDING:
        return 0.0
    return min(max(float(of_patients[0] @ of_patients[1]) / (lengths[0] * lengths[1]), 0.0), 1.0)


def _is_finite(bounds: Interval) -> bool:
    return math.isfinite(bounds.low) and math.isfinite(bounds.high)
