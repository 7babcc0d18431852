"""Charts of bars or dots, a row for each thing that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from medtune.data.readable import spoken
from medtune.data.types import Interval
from medtune.eval.report.charts.axis import AxisSpan, Tick, axis
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import phase_title, plain, span

MAX_LABEL = 36
BAR_PX = 10
LABEL_PX = 22
DOT_PX = 12
GAP_PX = 16


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
class BarLink:
    """The wrong answers of a level of a facet."""

    item: int  # The number of the first one in the gallery.
    group: str  # The level as the gallery's items name it.
    shown: int  # How many of them the gallery shows.
    all: int  # How many the run has.
    rest: str  # The command that names all.


@dataclass(frozen=True, slots=True)
class BarRow:
    y: int  # Distance from the top in pixels.
    label: str
    text: str
    bars: tuple[Bar, ...]
    random: float | None  # Position of the random baseline in percent; None if there is none.
    random_title: str  # The random baseline in words; "" if there is none.
    link: BarLink | None = None  # Where its wrong answers stand; None where the page shows none.


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
class Measure:
    kind: str
    value: float | None  # The value; None for no bar.
    ci95: Interval | None  # Its 95 % interval; None if there is none.


def facet_chart(run: RunData, facet: str, wrong: Mapping[str, BarLink]) -> BarChart:
    """Returns the chart of a facet: for each level one bar per phase, and the random baseline.

    Args:
        wrong: Level -> where its wrong answers stand.
    """
    levels = {name: phase.by.get(facet, {}) for name, phase in run.phases.items()}
    rows, links = [], []
    for level in dict.fromkeys(name for found in levels.values() for name in found):
        known = {name: found[level] for name, found in levels.items() if level in found}
        last = list(known.values())[-1]
        measures = [Measure(name, one.value, one.ci95) for name, one in known.items()]
        rows.append((f"{spoken(level)} (n = {last.n:,})", measures, last.baselines.get("random")))
        links.append(wrong.get(level))
    title = f"{spoken(run.level_metric).capitalize()} by {spoken(facet)}"
    chart = bar_chart(f"bars-{facet}", title, rows)
    linked = (replace(row, link=link) for row, link in zip(chart.rows, links, strict=True))
    return replace(chart, rows=tuple(linked))


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
        title=measure_text(measure),
    )


def measure_text(measure: Measure) -> str:
    reach = f", 95 % interval {span(measure.ci95, 2)}" if measure.ci95 else ""
    return f"{phase_title(measure.kind)} {plain(measure.value or 0.0, 2)}{reach}"
