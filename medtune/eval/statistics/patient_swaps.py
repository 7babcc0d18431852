"""Tests a difference of any metric by swapping the answers before and after for whole patients.

This is the test by which medtune judges a gain. Questions about one patient depend on each other, so all answers about
a patient are swapped together, and the metric itself is computed anew for each arrangement.

Shapes: A arrangements, C clusters whose swap can change something, W columns of a `Sums`.

McNemar's test, which stands beside it, takes questions as independent. Where several questions are about one patient it
finds a change where there is none far more often than its level says, so it decides nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medtune.eval.statistics import Clusters, Floats, Numbers, cluster_codes, num_clusters
from medtune.eval.statistics.column_sums import Statistic, Sums

MAX_ARRANGEMENTS = 2**16
_MIN_DRAWS = 1_000
_RECOMPUTED_DRAWS = 1_000
_NUMBERS_AT_ONCE = 4_000_000
_NUMBERS_DRAWN = 20_000_000
_TIE = 1e-9

Swaps = NDArray[np.bool_]

ALPHA = 0.05
"""The p value up to which a difference is called larger than chance explains."""


@dataclass(frozen=True, slots=True)
class SwapTest:
    """A test that swapped before and after for whole patients."""

    p: float  # Two-sided.
    num_patients: int  # Those whose swap can change the difference.
    arrangements: int  # Number of those that were tried; 0 where nothing could change.
    is_exact: bool  # Whether these are all.


def patient_p(both: Statistic, patients: Clusters, *, seed: int = 0) -> float:
    """Returns the two-sided p value of `patient_test`."""
    return patient_test(both, patients, seed=seed).p


def patient_test(both: Statistic, patients: Clusters, *, seed: int = 0) -> SwapTest:
    """Tests the difference after - before by swapping the two for whole patients.

    Under the null hypothesis it does not matter which of a patient's two sets of answers is called "before", however
    these answers depend on each other. The p value is the share of arrangements whose difference is at least as large
    as the observed one in either direction. All arrangements are tried if they are at most `MAX_ARRANGEMENTS`; fewer
    where many patients or columns make each dear, down to 1,000, and 1,000 if each is computed anew. With C patients
    whose swap changes something, p is then at least 2^(1 - C). Otherwise as many are drawn by the seed, and p is
    (b + 1) / (m + 1) if b of m are at least as large. An arrangement without a value counts as at least as large, and a
    difference without a value has the p value 1.

    Args:
        both: The statistic of the rows before, followed by the rows after, about the same questions in the same order.

    >>> from medtune.eval.statistics.column_sums import mean_of
    >>> patient_p(mean_of([0, 0, 0, 0, 1, 1, 1, 1]), ["a", "a", "b", "c"])
    0.25

    Source: Fisher 1935, "The Design of Experiments", section 21; clusters as units: Gail et al. 1996,
    doi:10.1002/(SICI)1097-0258(19960615)15:11<1069::AID-SIM220>3.0.CO;2-Q; any statistic: Good 2005, "Permutation,
    Parametric and Bootstrap Tests of Hypotheses", doi:10.1007/b138696; the count of the drawn arrangements: Phipson &
    Smyth 2010, doi:10.2202/1544-6115.1585.
    """
    codes = cluster_codes(patients)
    swapped = _of_sums(both, codes) if isinstance(both, Sums) else _of_rows(both, codes)
    if not swapped.num_clusters:
        return SwapTest(1.0, 0, 0, is_exact=True)
    (observed,) = np.abs(swapped.differences(np.zeros((1, swapped.num_clusters), dtype=np.bool_)))
    if not np.isfinite(observed):
        return SwapTest(1.0, swapped.num_clusters, 0, is_exact=True)
    # Swapping everyone reverses the sign alone, so the last cluster can stay as it is.
    free = swapped.num_clusters - 1
    is_exact = 2 ** min(free, 64) <= swapped.at_most
    number = 2**free if is_exact else swapped.at_most
    at_once = max(1, _NUMBERS_AT_ONCE // max(swapped.num_clusters, swapped.width))
    smaller = 0
    for swaps in _every(free, at_once) if is_exact else _drawn(free, number, at_once, seed):
        found = np.abs(swapped.differences(np.pad(swaps, ((0, 0), (0, 1)))))
        smaller += int(np.sum(found < observed - _TIE * max(1.0, observed)))
    p = (number - smaller) / number if is_exact else (number - smaller + 1) / (number + 1)
    return SwapTest(p, swapped.num_clusters, number, is_exact)


@dataclass(frozen=True, slots=True)
class _Swapped:
    num_clusters: int  # Number of clusters whose swap can change the difference.
    width: int  # Number of columns that each arrangement needs memory for.
    at_most: int  # Largest number of arrangements that are tried.
    # Returns the difference of each arrangement (A,), given which clusters are swapped (A, C).
    differences: Callable[[Swaps], Floats]


def _of_sums(both: Sums, codes: Numbers) -> _Swapped:
    from scipy.sparse import coo_array

    _check_pairs(both.num_rows, codes)
    number = num_clusters(codes)
    of_rows = np.concatenate([codes, codes + number])
    entries = (both.values, (of_rows[both.rows], both.columns))
    sums = coo_array(entries, shape=(2 * number, both.width)).tocsr()
    change = (sums[number:] - sums[:number]).tocsr()
    change.eliminate_zeros()
    changed = np.flatnonzero(np.diff(change.indptr))
    change_CW = change[changed].toarray()
    before_W, after_W = sums[:number].sum(axis=0), sums[number:].sum(axis=0)

    def differences(swaps_AC: Swaps) -> Floats:
        moved_AW = swaps_AC.astype(np.float64) @ change_CW
        found: Floats = both.finish(after_W - moved_AW) - both.finish(before_W + moved_AW)
        return found

    largest = max(changed.size, both.width)
    at_most = min(MAX_ARRANGEMENTS, max(_MIN_DRAWS, _NUMBERS_DRAWN // max(largest, 1)))
    return _Swapped(changed.size, both.width, at_most, differences)


def _of_rows(both: Statistic, codes: Numbers) -> _Swapped:
    rows = np.arange(codes.size)

    def difference(swaps_C: Swaps) -> float:
        is_swapped = swaps_C[codes]
        before = np.where(is_swapped, rows + codes.size, rows)
        after = np.where(is_swapped, rows, rows + codes.size)
        return both.part(after).value() - both.part(before).value()

    def differences(swaps_AC: Swaps) -> Floats:
        return np.array([difference(swaps_C) for swaps_C in swaps_AC])

    return _Swapped(num_clusters(codes), 1, _RECOMPUTED_DRAWS, differences)


def _every(number: int, at_once: int) -> Iterator[Swaps]:
    for start in range(0, 2**number, at_once):
        numbers = np.arange(start, min(start + at_once, 2**number))
        yield (numbers[:, None] >> np.arange(number) & 1).astype(np.bool_)


def _drawn(number: int, draws: int, at_once: int, seed: int) -> Iterator[Swaps]:
    rng = np.random.default_rng(seed)
    for start in range(0, draws, at_once):
        yield rng.integers(0, 2, (min(at_once, draws - start), number), dtype=np.bool_)


def _check_pairs(num_rows: int, codes: Numbers) -> None:
    if num_rows != 2 * codes.size:
        raise ValueError(f"wanted two rows for each of {codes.size} questions, before and after; got {num_rows} rows")


def p_text(p: float) -> str:
    """Returns a p value as papers print it.

    A p value above `ALPHA` never looks like one at or below it.

    >>> p_text(0.0321), p_text(1e-9), p_text(0.0501)
    ('0.032', '< 0.001', '> 0.050')
    """
    if p < 0.001:
        return "< 0.001"
    text = f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
    return f"> {text}" if float(text) <= ALPHA < p else text


def p_equals(p: float) -> str:
    """Returns a p value for use in a sentence.

    >>> p_equals(0.0321), p_equals(1e-9)
    ('p = 0.032', 'p < 0.001')
    """
    text = p_text(p)
    return f"p {text}" if text.startswith(("<", ">")) else f"p = {text}"


def mcnemar_exact(only_before: int, only_after: int) -> float:
    """Returns the two-sided exact p value of McNemar's test; 1 if no answer changed.

    The test takes questions as independent. Questions about one patient are not, so the test is only shown beside
    `patient_swaps.patient_p`.

    >>> round(mcnemar_exact(5, 1), 5)
    0.21875

    Source: McNemar 1947, doi:10.1007/BF02295996; exact form: binomial test of the discordant pairs.
    """
    from scipy.stats import binomtest

    changed = only_before + only_after
    return float(binomtest(only_before, changed, 0.5).pvalue) if changed else 1.0


@dataclass(frozen=True, slots=True)
class Adjusted:
    p_values: tuple[float, ...]  # The adjusted p values in the order given.
    rejected: tuple[bool, ...]  # For each test whether its null hypothesis is rejected.


def holm(p_values: Sequence[float], *, alpha: float = ALPHA) -> Adjusted:
    """Returns p values that are adjusted by Holm's method, which controls the family-wise error rate.

    >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03, 0.005]).p_values]
    [0.03, 0.06, 0.06, 0.02]

    Source: Holm 1979, https://www.jstor.org/stable/4615733.
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    # The smallest is multiplied by the number of tests, the next by one less; none becomes smaller than one before it.
    steps = np.minimum(1.0, np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)))
    adjusted = np.empty_like(steps)
    adjusted[order] = steps
    return Adjusted(tuple(adjusted.tolist()), tuple((adjusted <= alpha).tolist()))
