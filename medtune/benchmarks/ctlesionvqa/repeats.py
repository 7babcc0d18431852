"""Intervals from repeated experiments, as the paper's Tables 10 and 11 have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.types import Interval


@dataclass(frozen=True, slots=True)
class Repeated:
    """A mean over repeated experiments and its 95 % interval; None for a single one."""

    mean: float
    ci95: Interval | None
    repeats: int


def repeated(values: Sequence[float]) -> Repeated:
    """Returns the mean of one value per repeat and Student's interval about it.

    The paper says "5 repeated experiments" and prints symmetric intervals without naming a method; the t interval is
    the usual one for that. It knows nothing about other patients: read it beside the interval that resamples them.
    Repeats that agree have no width, whereas the paper prints +-.007 for models that always answer the same.

    Raises:
        ValueError: There are no values.

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
