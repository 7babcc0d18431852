"""Line charts: a line for each kind of measure, over labelled places or over the steps of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.eval.report.charts.axis import AxisSpan, Tick, axis
from medtune.eval.report.charts.bars import Measure, measure_text
from medtune.eval.report.run_data import CurvePoint
from medtune.eval.report.table import phase_title

INSET = 8.0
"""The distance of the outermost points of a line chart from its sides, in percent."""


@dataclass(frozen=True, slots=True)
class Dot:
    x: float  # Distance from the left in percent.
    y: float  # Distance from the top in percent.
    title: str
    low: float | None = None  # Lower end of the interval, from the top in percent; None without an interval.
    high: float | None = None  # Upper end of the interval, likewise.


@dataclass(frozen=True, slots=True)
class LineSeries:
    kind: str
    points: str  # The points of the line in percent, as SVG writes them.
    band: str  # The outline of the interval in percent, as SVG writes it; "" for none.
    dots: tuple[Dot, ...]  # The dots on the line.


@dataclass(frozen=True, slots=True)
class LineChart:
    id: str
    title: str
    desc: str  # The chart in words, for readers who cannot see it.
    series: tuple[LineSeries, ...]
    x_title: str  # What the horizontal axis shows.
    x_ticks: tuple[Tick, ...]  # The marks on the horizontal axis.
    y_ticks: tuple[Tick, ...]  # The marks on the vertical axis.
    reference: tuple[Tick, ...] = ()  # Horizontal lines, e.g. guessing.
    points: tuple[CurvePoint, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()  # (name, title) of each series, where a legend names them.
    says_more: bool = False  # True if `desc` says what neither marks nor legend do, so that it stands below the chart.

    @property
    def has_intervals(self) -> bool:
        """True if a dot has the ends of its interval."""
        return any(dot.low is not None for each in self.series for dot in each.dots)


def line_chart(
    id_: str, title: str, x_title: str, places: Mapping[str, float], rows: Sequence[tuple[str, Sequence[Measure]]]
) -> LineChart:
    """Returns a chart with a line for each kind of measure, over labelled places along the horizontal axis.

    Args:
        places: The place of each label along the axis, in any unit.
        rows: The label and the measures of each place.
    """
    known = [(label, measure) for label, measures in rows for measure in measures if measure.value is not None]
    ends = [end for _, measure in known for end in measure.ci95 or ()]
    low, high, ticks = axis([*(measure.value or 0.0 for _, measure in known), *ends])
    across, down = _inset(places), AxisSpan(high, low)
    kinds = dict.fromkeys(measure.kind for _, measures in rows for measure in measures)
    series = []
    for kind in kinds:
        dots = [_dot(label, each, across[label], down) for label, each in known if each.kind == kind]
        line = " ".join(f"{dot.x:.2f},{dot.y:.2f}" for dot in sorted(dots, key=lambda dot: dot.x))
        series.append(LineSeries(kind, line, "", tuple(dots)))
    return LineChart(
        id=id_,
        title=title,
        desc="; ".join(dot.title for each in series for dot in each.dots),
        series=tuple(series),
        x_title=x_title,
        x_ticks=tuple(Tick(at, label) for label, at in across.items()),
        y_ticks=tuple(Tick(down(tick), f"{tick:g}") for tick in ticks),
        kinds=tuple((kind, phase_title(kind)) for kind in kinds),
    )


def _inset(places: Mapping[str, float]) -> dict[str, float]:
    first, last = min(places.values()), max(places.values())
    span_ = AxisSpan(first, last) if last > first else AxisSpan(first - 1, first + 1)
    return {label: round(INSET + (100 - 2 * INSET) * span_(place) / 100, 3) for label, place in places.items()}


def _dot(label: str, measure: Measure, x: float, down: AxisSpan) -> Dot:
    value = measure.value or 0.0
    return Dot(
        x,
        down(value),
        f"{label}: {measure_text(measure)}",
        down(measure.ci95[0]) if measure.ci95 else None,
        down(measure.ci95[1]) if measure.ci95 else None,
    )
