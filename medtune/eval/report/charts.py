"""Computes the charts of the report: the position of each mark in percent of its panel. The template draws the SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.data.readable import spoken
from medtune.data.types import Interval
from medtune.eval.report.run_data import CurvePoint, RunData
from medtune.eval.report.table import phase_title, plain, span

MAX_POINTS = 400
MAX_LABEL = 36
BAR_PX = 10
LABEL_PX = 22
DOT_PX = 12
GAP_PX = 16
INSET = 8.0
"""The distance of the outermost points of a line chart from its sides, in percent."""
TRAINING_STEP = "training step"


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: `at` is its position in percent from the left or the top, `text` its label."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    kind: str
    y: int  # Distance from the top in pixels.
    x: float  # Left end in percent.
    width: float  # Width in percent.
    at: float  # Place of the value in percent.
    low: float | None  # Lower end of the interval in percent; None without an interval.
    high: float | None  # Upper end of the interval in percent; None without an interval.
    title: str


@dataclass(frozen=True, slots=True)
class BarRow:
    y: int  # Distance from the top in pixels.
    label: str
    text: str
    bars: tuple[Bar, ...]
    random: float | None  # Position of the random baseline in percent; None if there is none.
    random_title: str  # The random baseline in words; "" if there is none.


@dataclass(frozen=True, slots=True)
class BarChart:
    id: str
    title: str
    desc: str  # The chart in words, for readers who cannot see it.
    rows: tuple[BarRow, ...]
    ticks: tuple[Tick, ...]
    height: int  # Height in pixels without the axis.
    kinds: tuple[tuple[str, str], ...]  # (name, title) of each phase.
    has_random: bool  # True if any row has a random baseline.
    marks: Literal["bars", "dots"] = "bars"  # Dots of one row lie on one line, the bars of one below each other.


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


@dataclass(frozen=True, slots=True)
class Measure:
    kind: str
    value: float | None  # The value; None for no bar.
    ci95: Interval | None  # Its 95 % interval; None if there is none.


def facet_chart(run: RunData, facet: str) -> BarChart:
    """Returns the chart of a facet: for each level one bar per phase, and the random baseline."""
    levels = {name: phase.by.get(facet, {}) for name, phase in run.phases.items()}
    rows = []
    for level in dict.fromkeys(name for found in levels.values() for name in found):
        known = {name: found[level] for name, found in levels.items() if level in found}
        last = list(known.values())[-1]
        measures = [Measure(name, one.value, one.ci95) for name, one in known.items()]
        rows.append((f"{spoken(level)} (n = {last.n:,})", measures, last.baselines.get("random")))
    title = f"{spoken(run.level_metric).capitalize()} by {spoken(facet)}"
    return bar_chart(f"bars-{facet}", title, rows)


def bar_chart(
    id_: str,
    title: str,
    rows: Sequence[tuple[str, Sequence[Measure], float | None]],
    *,
    between: str = " \N{RIGHTWARDS ARROW} ",
    marks: Literal["bars", "dots"] = "bars",
) -> BarChart:
    """Returns a chart of bars or dots from rows of (label, measures, random baseline).

    Args:
        between: Stands between the numbers of a row.
    """
    values = [measure.value for _, measures, _ in rows for measure in measures if measure.value is not None]
    ends = [end for _, measures, _ in rows for measure in measures for end in measure.ci95 or ()]
    low, high, ticks = axis([*values, *ends, *(random for *_, random in rows if random is not None)])
    place = AxisSpan(low, high)
    drawn: list[BarRow] = []
    y = 0
    step = BAR_PX + 3 if marks == "bars" else 0
    for label, measures, random in rows:
        bars = []
        for number, measure in enumerate(one for one in measures if one.value is not None):
            bars.append(_bar(measure, y + LABEL_PX + number * step, place))
        said = between.join(plain(measure.value, 2) for measure in measures if measure.value is not None)
        drawn.append(
            BarRow(
                y=y,
                label=label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 3]}...",
                text=said,
                bars=tuple(bars),
                random=place(random) if random is not None else None,
                random_title=f"guessing {plain(random, 2)}" if random is not None else "",
            )
        )
        y += LABEL_PX + (len(bars) * step or DOT_PX) + GAP_PX
    kinds = dict.fromkeys(measure.kind for _, measures, _ in rows for measure in measures)
    return BarChart(
        id=id_,
        title=title,
        desc="; ".join(f"{row.label}: {', '.join(bar.title for bar in row.bars)}" for row in drawn),
        rows=tuple(drawn),
        ticks=tuple(Tick(place(tick), f"{tick:g}") for tick in ticks),
        height=max(y, 1),
        kinds=tuple((kind, phase_title(kind)) for kind in kinds),
        has_random=any(row.random is not None for row in drawn),
        marks=marks,
    )


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
        f"{label}: {_said(measure)}",
        down(measure.ci95[0]) if measure.ci95 else None,
        down(measure.ci95[1]) if measure.ci95 else None,
    )


def _said(measure: Measure) -> str:
    reach = f", 95 % interval {span(measure.ci95, 2)}" if measure.ci95 else ""
    return f"{phase_title(measure.kind)} {plain(measure.value or 0.0, 2)}{reach}"


def loss_chart(points: Sequence[CurvePoint]) -> LineChart | None:
    """Returns the chart of the train loss and its running mean; None of fewer than two points."""
    if len(points) < 2:
        return None
    window = max(1, len(points) // 20)
    means = _running_mean(points, window)
    low, high, ticks = axis([point.value for point in points], share=False)
    across, down = _steps(points), AxisSpan(high, low)
    series = [LineSeries("raw" if window > 1 else "mean", _line(_thinned(points), across, down), "", ())]
    series += [LineSeries("mean", _line(_thinned(means), across, down), "", ())] if window > 1 else []
    smooth = f" The thick line is the mean of the last {window} steps." if window > 1 else ""
    desc = f"From {plain(points[0].value)} at step {points[0].step} to {plain(means[-1].value)} at the end.{smooth}"
    return LineChart(
        id="curve-loss",
        title="Train loss",
        desc=desc,
        series=tuple(series),
        x_title=TRAINING_STEP,
        x_ticks=_step_ticks(points, across),
        y_ticks=tuple(Tick(down(tick), f"{tick:g}") for tick in ticks),
        points=tuple(_thinned(means)),
    )


def validation_chart(points: Sequence[CurvePoint], primary: str, *, guess: float | None) -> LineChart | None:
    """Returns the chart of the primary metric on the validation questions; None without points.

    Args:
        guess: The value of guessing, which the chart shows as a line; None for no line.
    """
    if not points:
        return None
    ends = [end for point in points for end in point.ci95 or ()]
    low, high, ticks = axis([*(point.value for point in points), *ends, *([] if guess is None else [guess])])
    across, down = _steps((CurvePoint(0, 0.0), *points)), AxisSpan(high, low)
    bounded = [(across(point.step), point.ci95) for point in points if point.ci95]
    upper = [f"{x:.2f},{down(pair[1]):.2f}" for x, pair in bounded]
    lower = [f"{x:.2f},{down(pair[0]):.2f}" for x, pair in reversed(bounded)]
    dots = tuple(Dot(across(point.step), down(point.value), _point_text(point)) for point in points)
    last = points[-1]
    return LineChart(
        id="curve-validation",
        title=f"{spoken(primary).capitalize()} on the validation questions",
        desc=f"{plain(last.value, 2)} at step {last.step}. The band is the 95 % interval"
        + ("." if guess is None else "; the dashed line is guessing."),
        series=(LineSeries("final", _line(points, across, down), " ".join([*upper, *lower]), dots),),
        x_title=TRAINING_STEP,
        x_ticks=_step_ticks((CurvePoint(0, 0.0), *points), across),
        y_ticks=tuple(Tick(down(tick), f"{tick:g}") for tick in ticks),
        reference=() if guess is None else (Tick(down(guess), f"guessing {plain(guess, 2)}"),),
        points=tuple(points),
    )


def _bar(measure: Measure, y: int, place: AxisSpan) -> Bar:
    value = measure.value or 0.0
    zero = place(0.0)
    return Bar(
        kind=measure.kind,
        y=y,
        x=min(zero, place(value)),
        width=abs(place(value) - zero),
        at=place(value),
        low=place(measure.ci95[0]) if measure.ci95 else None,
        high=place(measure.ci95[1]) if measure.ci95 else None,
        title=_said(measure),
    )


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


def _steps(points: Sequence[CurvePoint]) -> AxisSpan:
    first, last = points[0].step, max(point.step for point in points)
    return AxisSpan(first, last if last > first else first + 1)


def _step_ticks(points: Sequence[CurvePoint], across: AxisSpan) -> tuple[Tick, ...]:
    first, last = points[0].step, max(point.step for point in points)
    wanted = sorted({round(first + share * (last - first)) for share in (0, 0.25, 0.5, 0.75, 1)})
    return tuple(Tick(across(step), f"{step:,}") for step in wanted)


def _line(points: Sequence[CurvePoint], across: AxisSpan, down: AxisSpan) -> str:
    return " ".join(f"{across(point.step):.2f},{down(point.value):.2f}" for point in points)


def _running_mean(points: Sequence[CurvePoint], window: int) -> list[CurvePoint]:
    means = []
    for end, point in enumerate(points, start=1):
        part = points[max(0, end - window) : end]
        means.append(CurvePoint(point.step, sum(one.value for one in part) / len(part)))
    return means


def _thinned(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    every = math.ceil(len(points) / MAX_POINTS)
    return [point for number, point in enumerate(points) if number % every == 0 or number == len(points) - 1]


def _point_text(point: CurvePoint) -> str:
    reach = f", 95 % interval {span(point.ci95, 2)}" if point.ci95 else ""
    return f"step {point.step:,}: {plain(point.value, 2)}{reach}"
