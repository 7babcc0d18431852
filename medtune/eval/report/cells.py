"""Makes pairs of table cells: a value or a gain, and its interval."""

from __future__ import annotations

from typing import Literal

from medtune.eval.report.table import Cell, change, interval, number
from medtune.eval.results.schema import LevelGain, Measured


def value_cells(measured: Measured | None) -> list[Cell]:
    """Returns the cells of a value and of its 95 % interval; a dash for each that is missing."""
    return [number(measured.value if measured else None), interval(measured.ci95 if measured else None)]


def gain_cells(gain: LevelGain | None, *, higher_is_better: bool) -> list[Cell]:
    """Returns the cells of a gain, marked if its interval excludes zero, and of its 95 % interval; dashes for None."""
    reach = gain.ci95 if gain else None
    tone = improvement_tone(reach, higher_is_better=higher_is_better)
    return [change(gain.value if gain else None, tone=tone), interval(reach, sign=True)]


def improvement_tone(reach: tuple[float, float] | None, *, higher_is_better: bool) -> Literal["", "good", "bad"]:
    """Returns the tone of a gain: "good" or "bad" if its interval excludes zero, else "".

    Example:
        >>> improvement_tone((0.1, 0.3), higher_is_better=False), improvement_tone((-0.1, 0.3), higher_is_better=True)
        ('bad', '')
    """
    if reach is None or reach[0] <= 0 <= reach[1]:
        return ""
    return "good" if (reach[0] > 0) == higher_is_better else "bad"
