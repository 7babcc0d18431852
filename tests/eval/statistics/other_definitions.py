"""Other definitions of statistics, which medtune does not use; the golden values of tests contain them too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Interval
from medtune.eval.statistics.calibration import ReliabilityBin, _checked, _reliability, _scaled
from medtune.eval.statistics.patient_swaps import MAX_ARRANGEMENTS, mcnemar_exact


@dataclass(frozen=True, slots=True)
class Test:
    """A test statistic and its two-sided p value."""

    __test__ = False

    statistic: float
    p: float


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test in its four customary forms."""

    exact: Test  # Binomial test of the discordant pairs; the statistic is the smaller of the two counts.
    plain: Test | None  # Chi-square test without continuity correction; None if no pair is discordant.
    corrected: Test | None  # Chi-square test with Edwards' correction; None if no pair is discordant.
    # Exact p value minus half of the observed table's probability on each side; None if both counts are equal, because
    # definitions differ in that case.
    mid_p: float | None


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Returns McNemar's test of two raters of the same questions.

    >>> found = mcnemar(64, 26)
    >>> found.plain and round(found.plain.statistic, 2), found.corrected and round(found.corrected.statistic, 2)
    (16.04, 15.21)

    Source: McNemar 1947, doi:10.1007/BF02295996; correction: Edwards 1948, doi:10.1007/BF02289261; mid-p: Fagerland et
    al. 2013, doi:10.1186/1471-2288-13-91.
    """
    from scipy.stats import binom, chi2

    fewer, changed = min(only_first, only_second), only_first + only_second
    exact = Test(float(fewer), mcnemar_exact(only_first, only_second))
    if not changed:
        return McNemar(exact, None, None, None)
    gap = abs(only_first - only_second)
    plain, corrected = gap**2 / changed, (gap - 1) ** 2 / changed
    return McNemar(
        exact=exact,
        plain=Test(plain, float(chi2.sf(plain, 1))),
        corrected=Test(corrected, float(chi2.sf(corrected, 1))),
        mid_p=exact.p - float(binom.pmf(fewer, changed, 0.5)) if gap else None,
    )


def clopper_pearson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Returns the exact interval of a share of independent trials.

    Source: Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404; scipy's `binomtest(...).proportion_ci`.
    """
    from scipy.stats import binomtest

    found = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    return Interval(float(found.low), float(found.high))


def bonferroni(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns p values that are multiplied by their number, at most 1.

    Source: Dunn 1961, doi:10.1080/01621459.1961.10482090.
    """
    return tuple(min(1.0, p * len(p_values)) for p in p_values)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns p values that are adjusted to control the false discovery rate.

    Source: Benjamini & Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x; scipy's `false_discovery_control`.
    """
    from scipy.stats import false_discovery_control

    return tuple(map(float, false_discovery_control(p_values))) if p_values else ()


def left_closed_bins(confidence: Sequence[float], correct: Sequence[float], *, bins: int) -> list[ReliabilityBin]:
    """Returns the bins [low, high) that hold answers; the last bin also contains 1.

    Source: The convention of `numpy.histogram`.
    """
    at = _scaled(confidence, bins)
    return _reliability(np.minimum(np.floor(at), bins - 1).astype(np.intp), confidence, correct)


def maximum_calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """Returns the largest gap between confidence and accuracy of the bins; 0 without answers.

    Source: Naeini et al. 2015, doi:10.1609/aaai.v29i1.9602.
    """
    return max((abs(each.confidence - each.accuracy) for each in bins), default=0.0)


def brier(confidence: Sequence[float], correct: Sequence[float]) -> float:
    """Returns the mean squared gap between confidence and outcome, 0 (best) to 1; 0 without answers.

    >>> brier([1.0, 0.5], [1, 0])
    0.125

    Source: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2 (its form for one class).
    """
    said, right = _checked(confidence, correct)
    return float(np.mean((said - right) ** 2)) if said.size else 0.0


def clustered_standard_error(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int = 10_000, seed: int = 0
) -> float:
    """Returns the bootstrap standard error of a mean of clustered values, resampling whole clusters.

    Source: Efron & Tibshirani 1993, chapter 8.
    """
    from scipy.stats import bootstrap

    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    sums, counts = np.bincount(codes, weights=np.asarray(values, dtype=np.float64)), np.bincount(codes)
    if len(counts) < 2:
        raise ValueError(f"a standard error needs at least two clusters, got {len(counts)}")
    found = bootstrap(
        (sums, counts),
        lambda drawn, sizes, axis=-1: drawn.sum(axis=axis) / sizes.sum(axis=axis),
        n_resamples=resamples,
        batch=1000,
        vectorized=True,
        paired=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(found.standard_error)


@dataclass(frozen=True, slots=True)
class PairedPermutation:
    """The result of a sign-flip test of paired scores."""

    mean_difference: float  # Mean of first minus second.
    p_two_sided: float  # Twice the smaller one-sided p value, at most 1, as scipy defines it.
    p_absolute: float  # Share of the arrangements whose mean is at least as far from 0 as the observed one.
    p_greater: float  # Share of the arrangements whose mean is at least as high as the observed one.
    # Number of arrangements: 2 to the power of the number of pairs if all were tried, else the number that was drawn.
    arrangements: int


def paired_permutation(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> PairedPermutation:
    """Returns the sign-flip test of the mean of `first - second`: all arrangements, or `MAX_ARRANGEMENTS` of them.

    Source:
        Fisher 1935, "The Design of Experiments", section 21; scipy's `permutation_test(permutation_type="samples")`.
    """
    from scipy.stats import permutation_test

    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"wanted two scores for each of two or more questions, got {len(first)} and {len(second)}")
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)

    def p(statistic: object, alternative: str) -> float:
        found = permutation_test(
            (difference,),
            statistic,
            permutation_type="samples",
            n_resamples=MAX_ARRANGEMENTS,
            batch=4096,
            alternative=alternative,
            vectorized=True,
            rng=np.random.default_rng(seed),
        )
        return float(found.pvalue)

    def mean(values: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        averaged: NDArray[np.float64] = values.mean(axis=axis)
        return averaged

    return PairedPermutation(
        mean_difference=float(difference.mean()),
        p_two_sided=p(mean, "two-sided"),
        p_absolute=p(lambda values, axis=-1: np.abs(mean(values, axis)), "greater"),
        p_greater=p(mean, "greater"),
        arrangements=min(2 ** min(len(difference), 64), MAX_ARRANGEMENTS),
    )
