"""Makes pairs of table cells: a value or a gain, and its interval."""

from collections.abc import Mapping

from medtune.eval.comparing.verdict import Verdict, verdict
from medtune.eval.report.table import Cell, Tone, change, interval, number
from medtune.eval.results.phase_schema import Measured
from medtune.eval.results.schema import LevelGain

_TONES: Mapping[Verdict, Tone] = {"gain": "good", "loss": "bad"}


def value_cells(measured: Measured | None) -> list[Cell]:
    """Returns the cells of a value and of its 95 % interval; a dash for each that is missing."""
    return [number(measured.value if measured else None), interval(measured.ci95 if measured else None)]


def gain_cells(gain: LevelGain | None, *, higher_is_better: bool, whole: LevelGain | None = None) -> list[Cell]:
    """Returns the cells of a gain, marked if larger than chance explains, and of its interval; dashes for None.

    Args:
        whole: The gain on all questions, where `gain` is about a part of them: a part is marked only if the whole
            changed surely (`comparing.verdict`).
    """
    is_open = whole is not None and verdict(whole, higher_is_better=True) == "unclear"
    tone = "" if is_open else improvement_tone(gain, higher_is_better=higher_is_better)
    return [change(gain.value if gain else None, tone=tone), interval(gain.ci95 if gain else None, sign=True)]


def part_cells(gain: LevelGain | None) -> list[Cell]:
    """Returns the cells of a gain's two parts: on questions that were readable both times, and the rest."""
    part = gain.readability if gain else None
    if gain is None or part is None:
        return [change(gain.value if gain else None), change(0.0 if gain else None)]
    return [change(0.0 if part.value is None else part.value), change(part.format_value)]


def improvement_tone(gain: LevelGain | None, *, higher_is_better: bool) -> Tone:
    """Returns the tone of a gain: "good" or "bad" if it is larger than chance explains (`verdict`), else ""."""
    judged = verdict(gain, higher_is_better=higher_is_better) if gain else "unclear"
    return _TONES.get(judged, "")
