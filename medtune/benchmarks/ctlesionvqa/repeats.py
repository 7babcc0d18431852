"""Intervals from repeated experiments, as the paper's Tables 10 and 11 have them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.types import Interval


@dataclass(frozen=True, slots=True)
class Repeated:
    """The mean of a value over repeated experiments.

    Attributes:
        mean: The mean.
        ci95: Its 95 % confidence interval; None for a single experiment.
        repeats: The number of experiments.
    """

    mean: float
    ci95: Interval | None
    repeats: int


def repeated(values: Sequence[float]) -> Repeated:
    """Returns the mean of one value per repeat and Student's interval about it.

    The paper states "5 repeated experiments" and prints symmetric intervals without naming a method; Student's t
    interval is the usual one for this case. It does not cover the choice of patients, so read it together with the
    interval over patients. If all repeats agree, its width is 0, whereas the paper prints +-.007 for models
    that always give the same answer.

    Example:
        >>> found = repeated([0.50, 0.51, 0.49, 0.50, 0.50])
        >>> round(found.mean, 3), found.ci95 and round(found.ci95.high, 4)
        (0.5, 0.5088)

    Source:
        CTLesionVQA (arXiv 2505.18915), Appendix F; Student 1908, doi:10.1093/biomet/6.1.1.
    """
    from scipy.stats import t

    if not values:
        raise ValueError("an interval over repeats needs at least one value, got none")
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Repeated(mean, None, n)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = float(t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
    return Repeated(mean, Interval(mean - half, mean + half), n)
