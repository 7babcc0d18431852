"""Computes score intervals: all values that a test would not reject, with the variance that each value implies.

The variance of a share depends on the share, so that an interval made in this way stays within 0 and 1, has a width
where all answers agree, and holds the truth as often as it says where answers are few.
"""

import math
from statistics import NormalDist

from medtune.data.types import Interval

CONFIDENCE = 0.95
_BESIDE = 1e-9


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """Returns the quantile of the normal distribution for a two-sided interval."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def t_quantile(freedom: float, *, confidence: float = CONFIDENCE) -> float:
    """Returns the quantile of Student's t distribution for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def wilson(successes: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's score interval of a share.

    Args:
        successes: Number of successes, 0 to `n`; it need not be whole.
        n: Number of independent trials, > 0; it need not be whole.
        confidence: The confidence level, between 0 and 1.

    Example:
        >>> low, high = wilson(1, 2)
        >>> round(low, 4), round(high, 4)
        (0.0945, 0.9055)

    Source:
        Wilson 1927, doi:10.1080/01621459.1927.10502953.
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
        first: The first value and its interval.
        second: The second value and its interval.
        correlation: Correlation of the two values, 0 to 1.

    Example:
        >>> low, high = difference_of_two((0.15, wilson(1.5, 10)), (0.0, wilson(0, 10)), correlation=0.0)
        >>> round(low, 3), round(high, 3)
        (-0.459, 0.15)

    Source:
        Square-and-add: Newcombe 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I; with a
        correlation: Zou & Donner 2008, doi:10.1002/sim.3095.
    """

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))

    (before, of_before), (after, of_after) = first, second
    return Interval(
        after - before - reach(after - of_after.low, of_before.high - before),
        after - before + reach(of_after.high - after, before - of_before.low),
    )


def tango(up: float, down: float, n: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Returns Tango's score interval of the difference of two paired shares.

    Args:
        up: Share of the pairs that are wrong before and right after.
        down: Share of the pairs that are right before and wrong after; `up + down` is at most 1.
        n: Number of independent pairs, > 0; it need not be whole.
        confidence: The confidence level, between 0 and 1.

    Example:
        >>> low, high = tango(0, 0, 40)
        >>> round(low, 4), round(high, 4)
        (-0.0876, 0.0876)

    Source:
        Tango 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891::AID-SIM780>3.0.CO;2-B.
    """
    from scipy.optimize import brentq

    if up < 0 or down < 0 or up + down > 1 + 1e-9 or n <= 0:
        raise ValueError(f"tango wants shares that are >= 0, add up to at most 1, and n > 0, got {up}, {down}, {n}")
    z, difference = normal_quantile(confidence), up - down

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
