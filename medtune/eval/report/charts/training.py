"""Charts over the steps of a training: loss, scores on the validation questions, rates and the norm of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from medtune.data.readable import spoken
from medtune.eval.report.charts.axis import AxisSpan, Tick, axis
from medtune.eval.report.charts.lines import Dot, LineChart, LineSeries
from medtune.eval.report.run_data import GRADIENT_NORM, LOSS, RATES, CurvePoint, RunData, val_name
from medtune.eval.report.table import plain, span
from medtune.eval.results.phase_schema import Level

MAX_POINTS = 400
MAX_LINES = 6
"""The most lines of one chart, each of which has a colour and a pattern of its own."""
TRAINING_STEP = "training step"
_ASKED = "asked"
_SMALL = 0.01
_TASK = "task"


@dataclass(frozen=True, slots=True)
class Trace:
    """A line over the steps of a training, and points of other questions beside it."""

    kind: str  # How it is drawn: "raw", "mean", "final", or "s1" to "s6" among several.
    title: str  # Its name in the legend; "" for none.
    points: Sequence[CurvePoint]
    has_dots: bool = False  # True if each point is drawn.
    has_band: bool = False  # True if the intervals of its points are drawn too.
    # The score of the result's questions before the first step and behind the last one.
    beside: Sequence[CurvePoint] = field(default=())


def training_charts(run: RunData) -> tuple[LineChart, ...]:
    """Returns the charts of a run's training, as far as it logged them."""
    guess = run.last.overall.baselines.get("random")
    curves = run.curves
    found = (
        validation_chart(
            _from_the_start(run, curves.get(val_name(run.primary), ()), None),
            run.primary,
            guess=guess,
            beside=_other_points(run, None),
            split=str(run.setting("eval", "split")),
        ),
        loss_chart(curves.get(LOSS, ())),
        _by_task(run),
        _rates(curves),
        _with_mean("curve-norm", "Norm of the gradient", curves.get(GRADIENT_NORM, ())),
    )
    return tuple(chart for chart in found if chart is not None)


def loss_chart(points: Sequence[CurvePoint]) -> LineChart | None:
    """Returns the chart of the train loss and its running mean; None of fewer than two points."""
    return _with_mean("curve-loss", "Train loss", points)


def validation_chart(
    points: Sequence[CurvePoint],
    primary: str,
    *,
    guess: float | None,
    beside: Sequence[CurvePoint] = (),
    split: str = "",
) -> LineChart | None:
    """Returns the chart of the primary metric on the validation questions; None without points.

    Args:
        guess: The value of guessing, which the chart shows as a line; None for no line.
        beside: The scores of the result, which are of other questions, before the first step and behind the last one.
        split: The split of those questions.
    """
    if not points:
        return None
    last = points[-1]
    desc = f"{plain(last.value, 2)} at step {last.step:,}. The band is the 95 % interval"
    desc += "." if guess is None else "; the dashed line is guessing."
    if beside:
        desc += f" {_rings(split)}"
    name = "validation questions" if beside else ""
    trace = Trace("final", name, points, has_dots=True, has_band=True, beside=beside)
    title = f"{spoken(primary).capitalize()} on the validation questions"
    return steps_chart("curve-validation", title, [trace], desc=desc, guess=guess, shown=points, split=split)


def _rings(split: str) -> str:
    which = "other val questions" if split == "val" else f"the {split} questions, which are others"
    return f"Rings: {which}, zero-shot at step 0 and after training."


def _asks_the_same(run: RunData) -> bool:
    """Returns whether the result is of the validation's own questions."""
    split, wanted, val = (run.setting("eval", name) for name in ("split", "questions", "val_questions"))
    asked = run.last.asked
    every = wanted is None and asked is not None and isinstance(val, int) and val >= asked
    return split == "val" and (every or wanted == val)


def _from_the_start(run: RunData, points: Sequence[CurvePoint], task: str | None) -> Sequence[CurvePoint]:
    """Returns a curve with the zero-shot point, where that is of the same questions."""
    start = [each for each in _levels(run, task) if each.step == 0] if points and _asks_the_same(run) else []
    return [*start, *points]


def overlaid(id_: str, title: str, traces: Mapping[str, Sequence[CurvePoint]]) -> LineChart | None:
    """Returns the curves of several runs over each other; None without points."""
    known = [(name, points) for name, points in traces.items() if points]
    if not known:
        return None
    drawn = [
        Trace(f"s{place}", name, running_mean(points, max(1, len(points) // 20)))
        for place, (name, points) in enumerate(known[:MAX_LINES], start=1)
    ]
    desc = "; ".join(f"{trace.title}: {plain(trace.points[-1].value)} at the end" for trace in drawn)
    if more := len(known) - len(drawn):
        desc += f"; {more} more runs are not drawn"
    return steps_chart(id_, title, drawn, desc=f"{desc}.")


def _other_points(run: RunData, task: str | None) -> list[CurvePoint]:
    return [] if _asks_the_same(run) else _levels(run, task)


def _levels(run: RunData, task: str | None) -> list[CurvePoint]:
    last = max((points[-1].step for points in run.curves.values()), default=0)
    levels: list[tuple[int, Level | None]] = [
        (step, phase.overall if task is None else phase.by.get(_TASK, {}).get(task))
        for step, phase in ((0, run.phases.get("zero_shot")), (last, run.phases.get("final")))
        if phase is not None
    ]
    return [
        CurvePoint(step, level.value, level.ci95)
        for step, level in levels
        if level is not None and level.value is not None
    ]


def _by_task(run: RunData) -> LineChart | None:
    levels = run.last.by.get(_TASK, {})
    known = {task: run.curves.get(val_name(run.level_metric, facet=_TASK, level=task), ()) for task in levels}
    most = sorted((task for task in known if known[task]), key=lambda task: -levels[task].n)
    if len(most) < 2:
        return None
    drawn = [
        Trace(
            f"s{place}",
            spoken(task),
            _from_the_start(run, known[task], task),
            has_dots=True,
            beside=_other_points(run, task),
        )
        for place, task in enumerate(most[:MAX_LINES], start=1)
    ]
    split = str(run.setting("eval", "split"))
    desc = "Lines: the validation questions." + ("" if _asks_the_same(run) else f" {_rings(split)}")
    left = len(most) - len(drawn)
    desc += f" The {len(drawn)} tasks with the most questions of {len(most)}." if left else ""
    return steps_chart("curve-tasks", f"{spoken(run.level_metric).capitalize()} by task", drawn, desc=desc, split=split)


def _rates(curves: Mapping[str, Sequence[CurvePoint]]) -> LineChart | None:
    known = {name.removeprefix(RATES): points for name, points in curves.items() if name.startswith(RATES)}
    if not known:
        return None
    drawn = [
        Trace(f"s{place}", spoken(name), _thinned(points))
        for place, (name, points) in enumerate(list(known.items())[:MAX_LINES], start=1)
    ]
    ends = [f"{spoken(name)} at most {max(point.value for point in points):g}" for name, points in known.items()]
    return steps_chart("curve-rates", "Learning rate", drawn, desc=f"{'; '.join(ends)}.", share=False)


def _with_mean(id_: str, title: str, points: Sequence[CurvePoint]) -> LineChart | None:
    if len(points) < 2:
        return None
    window = max(1, len(points) // 20)
    means = running_mean(points, window)
    traces = [Trace("raw" if window > 1 else "mean", "", _thinned(points))]
    traces += [Trace("mean", "", _thinned(means))] if window > 1 else []
    smooth = f" The thick line is the mean of the last {window} steps." if window > 1 else ""
    desc = f"From {plain(points[0].value)} at step {points[0].step} to {plain(means[-1].value)} at the end.{smooth}"
    return steps_chart(id_, title, traces, desc=desc, shown=_thinned(means), share=False, starts_at_0=False)


def steps_chart(
    id_: str,
    title: str,
    traces: Sequence[Trace],
    *,
    desc: str,
    guess: float | None = None,
    shown: Sequence[CurvePoint] = (),
    share: bool = True,
    starts_at_0: bool = True,
    split: str = "",
) -> LineChart:
    """Returns a chart of some traces over the steps.

    Args:
        shown: The points that a table beside the chart lists.
        share: Whether the values are shares, whose axis ends at 1.
        starts_at_0: Whether the axis of the steps begins at 0; otherwise at the first point.
        split: The split of the questions beside the traces.
    """
    points = [point for trace in traces for point in (*trace.points, *trace.beside)]
    ends = [
        end
        for trace in traces
        if trace.has_band
        for point in (*trace.points, *trace.beside)
        for end in point.ci95 or ()
    ]
    low, high, ticks = axis(
        [*(point.value for point in points), *ends, *([] if guess is None else [guess])], share=share
    )
    steps = [*([0] if starts_at_0 else []), *(point.step for point in points)]
    across, down = _over_steps(steps), AxisSpan(high, low)
    series = [one for trace in traces for one in _drawn(trace, across, down)]
    kinds = [(trace.kind, trace.title) for trace in traces if trace.title]
    kinds += [(_ASKED, f"{split} questions")] if any(trace.beside for trace in traces) else []
    return LineChart(
        id=id_,
        title=title,
        desc=desc,
        series=tuple(series),
        x_title=TRAINING_STEP,
        x_ticks=_step_ticks(steps, across),
        y_ticks=tuple(Tick(down(tick), _tick_text(tick, high)) for tick in ticks),
        reference=() if guess is None else (Tick(down(guess), f"guessing {plain(guess, 2)}"),),
        points=tuple(shown),
        kinds=tuple(kinds) if kinds else (),
        says_more=True,
    )


def _drawn(trace: Trace, across: AxisSpan, down: AxisSpan) -> Iterator[LineSeries]:
    line = " ".join(f"{across(point.step):.2f},{down(point.value):.2f}" for point in trace.points)
    bounded = [(across(point.step), point.ci95) for point in trace.points if point.ci95] if trace.has_band else []
    upper = [f"{x:.2f},{down(pair[1]):.2f}" for x, pair in bounded]
    lower = [f"{x:.2f},{down(pair[0]):.2f}" for x, pair in reversed(bounded)]
    dots = [Dot(across(point.step), down(point.value), _point_text(point)) for point in trace.points]
    yield LineSeries(trace.kind, line, " ".join([*upper, *lower]), tuple(dots) if trace.has_dots else ())
    if trace.beside:
        rings = [
            Dot(
                across(point.step),
                down(point.value),
                _point_text(point) if trace.has_band else f"{trace.title}, {_point_text(point)}",
                down(point.ci95[0]) if point.ci95 and trace.has_band else None,
                down(point.ci95[1]) if point.ci95 and trace.has_band else None,
            )
            for point in trace.beside
        ]
        yield LineSeries(_ASKED if trace.has_band else f"{_ASKED} ring-{trace.kind}", "", "", tuple(rings))


def _tick_text(tick: float, high: float) -> str:
    return f"{tick:.1e}".replace("e-0", "e-") if tick and high < _SMALL else f"{tick:g}"


def _over_steps(steps: Sequence[int]) -> AxisSpan:
    first, last = min(steps), max(steps)
    return AxisSpan(first, last if last > first else first + 1)


def _step_ticks(steps: Sequence[int], across: AxisSpan) -> tuple[Tick, ...]:
    first, last = min(steps), max(steps)
    wanted = sorted({round(first + share * (last - first)) for share in (0, 0.25, 0.5, 0.75, 1)})
    return tuple(Tick(across(step), f"{step:,}") for step in wanted)


def running_mean(points: Sequence[CurvePoint], window: int) -> list[CurvePoint]:
    """Returns at each point the mean of the last `window` values."""
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
