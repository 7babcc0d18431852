"""Makes pairs of table cells: a value or a gain, and its interval."""

from typing import Literal

from medtune.eval.comparing.verdict import verdict
from medtune.eval.report.table import Cell, change, interval, number
from medtune.eval.results.phase_schema import Measured
from medtune.eval.results.schema import LevelGain


def value_cells(measured: Measured | None) -> list[Cell]:
    """Returns the cells of a value and of its 95 % interval; a dash for each that is missing."""
    return [number(measured.value if measured else None), interval(measured.ci95 if measured else None)]


def gain_cells(gain: LevelGain | None, *, higher_is_better: bool) -> list[Cell]:
    """Returns the cells of a gain, marked if larger than chance explains, and of its interval; dashes for None."""
    tone = improvement_tone(gain, higher_is_better=higher_is_better)
    return [change(gain.value if gain else None, tone=tone), interval(gain.ci95 if gain else None, sign=True)]


def improvement_tone(gain: LevelGain | None, *, higher_is_better: bool) -> Literal["", "good", "bad"]:
    """Returns the tone of a gain: "good" or "bad" if it is larger than chance explains (`verdict`), else ""."""
    judged = verdict(gain, higher_is_better=higher_is_better) if gain else "unclear"
    if judged == "unclear":
        return ""
    return "good" if judged == "gain" else "bad"
