"""Axes of charts: their ends and ticks, and the place of a value along one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: `at` is its position in percent from the left or the top, `text` its label."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The place of a value between two ends, in percent."""

    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.start) / (self.end - self.start)
        return round(100 * min(max(share, 0.0), 1.0), 3)


def axis(values: Sequence[float], *, share: bool = True) -> tuple[float, float, list[float]]:
    """Returns the ends of an axis for some values and 0, and the values of its ticks."""
    low, high = min([0.0, *values]), max([0.0, *values])
    if share and low >= 0 and high <= 1:
        return 0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]
    rough = (high - low or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step) or 1
    return first * step, last * step, [round(number * step, 10) for number in range(first, last + 1)]
