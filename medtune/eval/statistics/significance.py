"""McNemar's test of questions, p values that are adjusted for several tests, and p values as text.

McNemar's test takes questions as independent. Where several questions are about one patient it finds a change where
there is none far more often than its level says, so it decides nothing: `patient_swaps` has the test that decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
"""The p value up to which a difference is called larger than chance explains."""


def p_text(p: float) -> str:
    """Returns a p value as papers print it.

    A p value above `ALPHA` never looks like one at or below it.

    Example:
        >>> p_text(0.0321), p_text(1e-9), p_text(0.0501)
        ('0.032', '< 0.001', '> 0.050')
    """
    if p < 0.001:
        return "< 0.001"
    text = f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
    return f"> {text}" if float(text) <= ALPHA < p else text


def p_equals(p: float) -> str:
    """Returns a p value for use in a sentence.

    Example:
        >>> p_equals(0.0321), p_equals(1e-9)
        ('p = 0.032', 'p < 0.001')
    """
    text = p_text(p)
    return f"p {text}" if text.startswith(("<", ">")) else f"p = {text}"


def mcnemar_exact(only_before: int, only_after: int) -> float:
    """Returns the two-sided exact p value of McNemar's test; 1 if no answer changed.

    The test takes questions as independent. Questions about one patient are not, so the test is only shown beside
    `patient_swaps.patient_p`.

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
class Adjusted:
    """The result of an adjustment for several tests.

    Attributes:
        p_values: The adjusted p values in the order given.
        rejected: For each test whether its null hypothesis is rejected.
    """

    p_values: tuple[float, ...]
    rejected: tuple[bool, ...]


def holm(p_values: Sequence[float], *, alpha: float = ALPHA) -> Adjusted:
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
