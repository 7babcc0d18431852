"""Tests differences: McNemar's test, permutations of questions or of whole patients, and adjusted p values.

McNemar's test and `paired_permutation` take questions as independent. If several questions are about one patient, these
tests should be read with the clustered intervals of `intervals` or with `clustered_permutation`, which flips whole
patients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_ARRANGEMENTS = 2**16
_NUMBERS_AT_ONCE = 4_000_000
_NUMBERS_DRAWN = 20_000_000
_TIE = 1e-9


def mcnemar_exact(only_before: int, only_after: int) -> float:
    """Returns the two-sided exact p value of McNemar's test; 1 if no answer changed.

    The test takes questions as independent. Questions about one patient are not, so the p value should be read with the
    clustered interval of the gain.

    Args:
        only_before: Number of questions right before and wrong after.
        only_after: Number of questions wrong before and right after.

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
class PairedPermutation:
    """The result of a sign-flip test of paired scores.

    Attributes:
        mean_difference: Mean of first minus second.
        p_two_sided: Twice the smaller one-sided p value, at most 1, as scipy defines it.
        p_absolute: Share of the arrangements whose mean is at least as far from 0 as the observed one.
        p_greater: Share of the arrangements whose mean is at least as high as the observed one.
        arrangements: Number of arrangements: 2 to the power of the number of pairs if all were tried, else the number
            that was drawn.
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
        second: A score for each of the same questions, in the same order.
        seed: Seed of the draws; it has no effect if all arrangements are tried.

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

    Under the null hypothesis whole patients are exchangeable, so that answers about one patient may depend on each
    other in any way. If there are at most `MAX_ARRANGEMENTS` arrangements, all are tried. Otherwise this number is
    drawn, or fewer, down to 1000, for many thousands of clusters, and the observed arrangement counts as one of them.

    Args:
        before: A score per question.
        after: A score for each of the same questions, in the same order.
        clusters: Patient of each question.
        seed: Seed of the draws.

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
    """The result of an adjustment for several tests.

    Attributes:
        p_values: The adjusted p values in the order given.
        rejected: For each test whether its null hypothesis is rejected.
    """

    p_values: tuple[float, ...]
    rejected: tuple[bool, ...]


def holm(p_values: Sequence[float], *, alpha: float = 0.05) -> Adjusted:
    """Returns p values that are adjusted by Holm's method, which controls the family-wise error rate.

    Example:
        >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03, 0.005]).p_values]
        [0.03, 0.06, 0.06, 0.02]

    Source:
        Holm 1979, https://www.jstor.org/stable/4615733; statsmodels' `multipletests`.
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return Adjusted((), ())
    rejected, adjusted, *_ = multipletests(p_values, alpha=alpha, method="holm")
    return Adjusted(tuple(float(p) for p in adjusted), tuple(bool(is_rejected) for is_rejected in rejected))
