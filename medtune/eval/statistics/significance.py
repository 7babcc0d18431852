"""Tests of a difference, and what they cost when there are many: McNemar, permutation, adjusted p values.

McNemar's test and `paired_permutation` take questions as independent; where several are about one patient, read them
with the clustered intervals of `intervals` or with `clustered_permutation`, which flips whole patients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medtune.data.types import Interval

MAX_ARRANGEMENTS = 2**16
_NUMBERS_AT_ONCE = 4_000_000
_NUMBERS_DRAWN = 20_000_000
_TIE = 1e-9


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


@dataclass(frozen=True, slots=True)
class Test:
    """A test statistic and its two-sided p value."""

    __test__ = False

    statistic: float
    p: float


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test in its four customary forms.

    Attributes:
        exact: Binomial test of the discordant pairs; the statistic is the smaller of the two counts.
        plain: Chi-square without continuity correction; None where no pair is discordant.
        corrected: Chi-square with Edwards' correction; None where no pair is discordant.
        mid_p: Exact p less half of the observed table's probability on each side; None where both counts are
            equal, because definitions differ there.
    """

    exact: Test
    plain: Test | None
    corrected: Test | None
    mid_p: float | None


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Returns McNemar's test of two raters of the same questions.

    Args:
        only_first: Questions that only the first got right.
        only_second: Questions that only the second got right.

    Example:
        >>> found = mcnemar(64, 26)
        >>> found.plain and round(found.plain.statistic, 2), found.corrected and round(found.corrected.statistic, 2)
        (16.04, 15.21)

    Source:
        McNemar 1947, doi:10.1007/BF02295996; correction: Edwards 1948, doi:10.1007/BF02289261; mid-p:
        Fagerland et al. 2013, doi:10.1186/1471-2288-13-91.
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

    Raises:
        ValueError: `n` is not positive or `successes` is outside [0, n].

    Source:
        Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404; scipy's `binomtest(...).proportion_ci`.
    """
    from scipy.stats import binomtest

    found = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    return Interval(float(found.low), float(found.high))


@dataclass(frozen=True, slots=True)
class PairedPermutation:
    """Sign-flip test of paired scores.

    Attributes:
        p_two_sided: Twice the smaller one-sided p, at most 1: scipy's definition.
        p_absolute: Share of arrangements whose mean is at least as far from 0.
        p_greater: Share of arrangements whose mean is at least as high.
        arrangements: 2 to the number of pairs where all of them were tried, else how many were drawn.
    """

    mean_difference: float
    p_two_sided: float
    p_absolute: float
    p_greater: float
    arrangements: int


def paired_permutation(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> PairedPermutation:
    """Returns the sign-flip test of the mean of `first - second`: all arrangements, or `MAX_ARRANGEMENTS` of them.

    Args:
        first: A score per question.
        second: Of the same questions, in the same order.
        seed: Of the draws; without effect where all arrangements are tried.

    Raises:
        ValueError: Fewer than two pairs, or lengths differ.

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


def clustered_permutation(
    before: Sequence[float], after: Sequence[float], clusters: Sequence[str], *, seed: int = 0
) -> float:
    """Returns the two-sided p value of the sum of `after - before`, the sign flipped for whole clusters at once.

    What is exchanged under the null hypothesis is a patient with all questions, so that answers about one patient may
    hang together as they like. All arrangements are tried where there are at most `MAX_ARRANGEMENTS`; else as many are
    drawn (fewer, down to 1000, for many thousands of clusters) and the observed one counts as one of them.

    Args:
        before: A score per question.
        after: Of the same questions, in the same order.
        clusters: Patient of each question.
        seed: Of the draws.

    Raises:
        ValueError: No questions, or lengths differ.

    Example:
        >>> clustered_permutation([0, 0, 0, 0], [1, 1, 1, 1], ["a", "a", "b", "c"])
        0.25

    Source:
        Fisher 1935, "The Design of Experiments", section 21; clusters as units: Gail et al. 1996,
        doi:10.1002/(SICI)1097-0258(19960615)15:11<1069::AID-SIM220>3.0.CO;2-Q; the count of the drawn arrangements:
        Phipson & Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    if not len(before) == len(after) == len(clusters) or not len(clusters):
        raise ValueError(f"wanted two scores and a cluster per question, got {len(before)}, {len(after)} of each")
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    # A cluster whose sum is 0 has no sign to flip.
    sums_G = np.bincount(codes, weights=difference)
    sums_G = sums_G[sums_G != 0]
    observed = abs(sums_G.sum()) - _TIE
    if 2 ** min(sums_G.size, 64) <= MAX_ARRANGEMENTS:
        bits = np.arange(2**sums_G.size)[:, None] >> np.arange(sums_G.size)
        return float(np.mean(np.abs(_flipped(bits, sums_G)) >= observed))
    draws = min(MAX_ARRANGEMENTS, max(1000, _NUMBERS_DRAWN // sums_G.size))
    rng, as_far, at_once = np.random.default_rng(seed), 0, max(1, _NUMBERS_AT_ONCE // sums_G.size)
    for start in range(0, draws, at_once):
        bits = rng.integers(0, 2, (min(at_once, draws - start), sums_G.size), dtype=np.int8)
        as_far += int(np.sum(np.abs(_flipped(bits, sums_G)) >= observed))
    return float((as_far + 1) / (draws + 1))


def _flipped(bits: NDArray[np.integer[Any]], sums_G: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = 2 * ((bits & 1) @ sums_G) - sums_G.sum()
    return found


@dataclass(frozen=True, slots=True)
class Adjusted:
    """P values after adjustment, in the order given, and which hypotheses are rejected."""

    p_values: tuple[float, ...]
    rejected: tuple[bool, ...]


def holm(p_values: Sequence[float], *, alpha: float = 0.05) -> Adjusted:
    """Returns p values that control the family-wise error rate by Holm's steps; nothing for nothing.

    Example:
        >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03, 0.005]).p_values]
        [0.03, 0.06, 0.06, 0.02]

    Source:
        Holm 1979, https://www.jstor.org/stable/4615733; statsmodels' `multipletests`.
    """
    return _adjusted(p_values, "holm", alpha)


def bonferroni(p_values: Sequence[float], *, alpha: float = 0.05) -> Adjusted:
    """Returns p values times their number, at most 1; nothing for nothing.

    Source:
        Dunn 1961, doi:10.1080/01621459.1961.10482090; statsmodels' `multipletests`.
    """
    return _adjusted(p_values, "bonferroni", alpha)


def benjamini_hochberg(p_values: Sequence[float], *, alpha: float = 0.05) -> Adjusted:
    """Returns p values that control the false discovery rate; nothing for nothing.

    Source:
        Benjamini & Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x; statsmodels' `multipletests`.
    """
    return _adjusted(p_values, "fdr_bh", alpha)


def _adjusted(p_values: Sequence[float], method: str, alpha: float) -> Adjusted:
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return Adjusted((), ())
    rejected, adjusted, *_ = multipletests(p_values, alpha=alpha, method=method)
    return Adjusted(tuple(float(p) for p in adjusted), tuple(bool(is_rejected) for is_rejected in rejected))


def clustered_standard_error(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int = 10_000, seed: int = 0
) -> float:
    """Returns the bootstrap standard error of a mean of clustered values, resampling whole clusters.

    Raises:
        ValueError: Lengths differ, or there are fewer than two clusters.

    Source:
        Efron & Tibshirani 1993, chapter 8.
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
