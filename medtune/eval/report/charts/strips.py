"""Dots with their intervals in rows over one axis, each with its name and its number: what stands beside a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.data.types import Interval
from medtune.eval.report.charts.axis import AxisSpan, Tick, axis
from medtune.eval.report.table import plain, signed, span

Tone = Literal["model", "before", "blind", "check"]


@dataclass(frozen=True, slots=True)
class StripValue:
    """What one row shows."""

    label: str
    value: float
    ci95: Interval | None
    tone: Tone  # The model with its image, before it was trained, without its image, or what needs no such model.
    note: str = ""  # What stands behind the number, for instance that it is not beaten.


@dataclass(frozen=True, slots=True)
class Strip:
    label: str
    text: str
    note: str
    tone: Tone
    at: float  # The place of the value in percent.
    low: float | None  # Lower end of the interval in percent; None without an interval.
    high: float | None
    said: str  # The row in words.


@dataclass(frozen=True, slots=True)
class StripChart:
    id: str
    title: str
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    line: float | None  # The model's value in percent, which goes through all rows.
    band: tuple[float, float] | None  # The ends of the model's interval in percent.


def strip_chart(id_: str, title: str, rows: Sequence[StripValue], *, of_differences: bool = False) -> StripChart | None:
    """Returns the chart; the first row of tone "model" gives the line and the band.

    Args:
        of_differences: Whether the values are differences: they have signs, and the line is zero.

    Returns:
        The chart, or None of fewer than two values, of which one alone says nothing that is not in words.
    """
    if (len(rows) < 2 and not of_differences) or not rows:
        return None
    ends = [end for row in rows for end in row.ci95 or ()]
    low, high, ticks = axis([*(row.value for row in rows), *ends])
    place = AxisSpan(low, high)
    strips = [
        Strip(
            row.label,
            signed(row.value, 3) if of_differences else plain(row.value, 2),
            row.note,
            row.tone,
            place(row.value),
            place(row.ci95[0]) if row.ci95 else None,
            place(row.ci95[1]) if row.ci95 else None,
            f"{plain(row.value, 2)}{f', 95 % interval {span(row.ci95, 2, sign=of_differences)}' if row.ci95 else ''}",
        )
        for row in rows
    ]
    own = next((row for row in rows if row.tone == "model"), None)
    return StripChart(
        id=id_,
        title=title,
        strips=tuple(strips),
        ticks=tuple(Tick(place(tick), f"{tick:g}") for tick in ticks),
        line=place(own.value) if own else place(0.0) if of_differences else None,
        band=(place(own.ci95[0]), place(own.ci95[1])) if own and own.ci95 else None,
    )
