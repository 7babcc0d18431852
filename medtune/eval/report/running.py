"""The page of a run that goes on, which loads itself anew: what was measured so far, the time left, and the curves."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from typing_extensions import TypedDict

from medtune.data.progress import clock
from medtune.data.readable import spoken
from medtune.eval.report.charts.lines import LineChart
from medtune.eval.report.charts.rewards import reward_charts
from medtune.eval.report.charts.training import loss_chart, validation_chart
from medtune.eval.report.html import render
from medtune.eval.report.run_data import LOSS, REWARD, CurvePoint, read_curves, val_name
from medtune.eval.report.shown_draws import draws_table
from medtune.eval.report.table import ReportTable, count, interval, number, phase_title, word
from medtune.eval.results.draws import read_draws
from medtune.eval.results.schema import PHASES

REFRESH_S = 30
PROGRESS = "medtune-progress"
"""The name of the page's field that says how far the run is, for programs."""


class Progress(TypedDict):
    """How far a run is."""

    step: int
    steps: int | None
    left_s: float | None
    is_over: bool
    at: str  # When the page was written, in ISO 8601.
    primary: str


@dataclass(frozen=True, slots=True)
class RunningRun:
    """What is known of a run beside its curves."""

    title: str  # The benchmark and the recipe.
    subtitle: str  # The model and the split.
    banners: tuple[tuple[str, str], ...]  # Reasons why the numbers are not a benchmark's own, each with its meaning.
    primary: str  # The most important metric.
    steps: int | None  # The steps of all stages; None where nothing is learnt and none were counted.


def running_html(folder: Path, run: RunningRun, *, left_s: float | None, is_over: bool, at: datetime) -> str:
    """Returns the page from the run's metrics.csv.

    Args:
        left_s: How long the run still takes; None where nobody knows.
        is_over: Whether the process ends, without results; the page then no longer loads itself anew.
        at: When the page is written, in local time.
    """
    names = [LOSS, val_name(run.primary)]
    for phase in PHASES:
        names += [f"{phase}/{run.primary}", f"{phase}/{run.primary}_n"]
    curves = read_curves(folder / "metrics.csv", lambda name: name in names or name.startswith(REWARD))
    charts = (
        loss_chart(curves.get(names[0], ())),
        validation_chart(curves.get(names[1], ()), run.primary, guess=None),
        *reward_charts(curves),
    )
    progress = Progress(
        step=_step(run, curves),
        steps=run.steps,
        left_s=left_s,
        is_over=is_over,
        at=at.isoformat(timespec="seconds"),
        primary=run.primary,
    )
    return render(
        "running.html.j2",
        progress_name=PROGRESS,
        progress=json.dumps(progress),
        run=run,
        sentences=_sentences(run, curves, left_s=left_s, is_over=is_over, at=at),
        phases=_phases(run, curves),
        curves=[chart for chart in charts if isinstance(chart, LineChart)],
        draws=draws_table(read_draws(folder)),
        refresh_s=None if is_over else REFRESH_S,
        sections=[("now", "Now"), ("training", "Training")],
    )


def _sentences(
    run: RunningRun, curves: Mapping[str, Sequence[CurvePoint]], *, left_s: float | None, is_over: bool, at: datetime
) -> list[str]:
    step = _step(run, curves)
    done = f"step {step:,}" if run.steps is None else f"step {step:,} of {run.steps:,}"
    if is_over:
        return [f"The process ended at {at:%Y-%m-%d %H:%M:%S}, at {done}, and there are no results of the whole run."]
    left = "" if left_s is None else f", {clock(left_s)} left of the whole run"
    return [
        f"The run goes on: {done}{left}.",
        f"Written at {at:%Y-%m-%d %H:%M:%S}, and anew with every validation and phase. Where that is long ago, the "
        "process was killed: go on with --resume.",
        "The report takes this page's place when the run has ended. No number of this page is a result.",
    ]


def _step(run: RunningRun, curves: Mapping[str, Sequence[CurvePoint]]) -> int:
    return max((point.step for name in (LOSS, val_name(run.primary)) for point in curves.get(name, ())), default=0)


def _phases(run: RunningRun, curves: Mapping[str, Sequence[CurvePoint]]) -> ReportTable:
    rows = []
    for phase in PHASES:
        if points := curves.get(f"{phase}/{run.primary}"):
            asked = curves.get(f"{phase}/{run.primary}_n", ())
            shown = count(round(asked[-1].value) if asked else None)
            rows.append((word(phase_title(phase)), number(points[-1].value), interval(points[-1].ci95), shown))
    return ReportTable("Phases that have ended", ("phase", spoken(run.primary), "95 % interval", "number"), tuple(rows))
