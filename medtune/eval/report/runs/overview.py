"""One page over all runs below a folder: what each is, how far it is, what it scored, and its last curve."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import unescape
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from medtune.data.progress import clock
from medtune.data.readable import spoken
from medtune.data.yaml_text import yaml_text
from medtune.eval.report.charts.axis import AxisSpan
from medtune.eval.report.html import render
from medtune.eval.report.run_data import LOSS, CurvePoint, read_curves, val_name
from medtune.eval.report.running import PROGRESS, Progress
from medtune.eval.report.table import plain, signed, span
from medtune.eval.results.schema import ResultsFile
from medtune.eval.results.typed_json import read_json

RECIPE, ENVIRONMENT, RESULTS, REPORT, CURVES = (
    "recipe.yaml", "environment.json", "results.json", "report.html", "metrics.csv",
)  # fmt: skip
REFRESH_S = 30
SILENT_S = 900
"""The seconds without a sign after which a run shows none; a validation of a large model may take longer."""
_PARTS = frozenset(
    {"zero_shot", "final", "checkpoints", "validation", "audit", "wandb", "launch", "tensorboard", "mlruns"}
)
_HEAD_BYTES = 100_000
_POINTS = 60

State = Literal["finished", "running", "ended without results", "no sign of life", "cannot be read"]

_PROGRESS = TypeAdapter(Progress)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve in small."""

    title: str
    points: str  # The points in percent, as SVG writes them.


@dataclass(frozen=True, slots=True)
class RunLine:
    name: str  # Its folder, from the one that was given.
    folder: Path
    state: State
    recipe: str = ""
    model: str = ""
    data: str = ""  # Benchmark and hash.
    phase: str = ""  # How far it is, in words.
    left_s: float | None = None  # How long it still takes; None if that is not known, or over.
    metric: str = ""
    score: float | None = None
    interval: str = ""
    gain: float | None = None
    curve: Curve | None = None  # Its last curve; None without points.
    written: datetime | None = None  # When it last wrote something.
    has_report: bool = False

    @property
    def link(self) -> str:
        """The address of its report from the folder that was given."""
        return quote(f"{self.name}/{REPORT}")

    @property
    def left(self) -> str:
        return "" if self.left_s is None else clock(self.left_s)

    @property
    def score_text(self) -> str:
        return "" if self.score is None else plain(self.score)

    @property
    def gain_text(self) -> str:
        return "" if self.gain is None else signed(self.gain)


def runs_below(root: Path) -> list[RunLine]:
    """Returns the runs below a folder, the newest first; links to folders are not followed.

    A run whose files cannot be read has a line that says so.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: there is no such folder; name the one with your runs")
    found = [_line(root, folder) for folder in _run_folders(root)]
    return sorted(found, key=lambda line: line.written.timestamp() if line.written else 0.0, reverse=True)


def linked_runs(root: Path) -> list[Path]:
    """Returns the links to runs below a folder, of which the page says nothing."""
    links = (folder / name for folder, names in _walked(root) for name in names if (folder / name).is_symlink())
    return [link for link in links if all((link / file).is_file() for file in (RECIPE, ENVIRONMENT))]


def _run_folders(root: Path) -> Iterator[Path]:
    return (folder for folder, _ in _walked(root) if all((folder / file).is_file() for file in (RECIPE, ENVIRONMENT)))


def _walked(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, inner, _ in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _PARTS and not name.startswith("."))
        yield Path(folder), inner


@with_config(ConfigDict(extra="ignore"))
class _Begun(TypedDict, total=False):
    """What is read of environment.json."""

    recipe: str
    data_hash: str


def _line(root: Path, folder: Path) -> RunLine:
    name = folder.relative_to(root).as_posix() if folder != root else "."
    try:
        return _read(name, folder)
    except (OSError, ValueError) as error:
        return RunLine(name, folder, "cannot be read", phase=str(error), written=_written(folder))


def _read(name: str, folder: Path) -> RunLine:
    tree = yaml_text((folder / RECIPE).read_text("utf-8"), where=str(folder / RECIPE))
    begun = read_json(folder / ENVIRONMENT, _Begun)
    model, benchmark = _setting(tree, "model", "name"), _setting(tree, "data", "benchmark")
    line = RunLine(
        name,
        folder,
        "no sign of life",
        recipe=begun.get("recipe", ""),
        model=model,
        data=f"{spoken(benchmark)} {begun.get('data_hash', '')[:8]}".strip(),
        written=_written(folder),
        has_report=_is_own(folder / REPORT),
    )
    results = folder / RESULTS
    return _finished(line, read_json(results, ResultsFile)) if results.is_file() else _begun(line, folder)


def _setting(tree: object, block: str, name: str) -> str:
    inner = tree.get(block) if isinstance(tree, dict) else None
    found = inner.get(name) if isinstance(inner, dict) else None
    return found if isinstance(found, str) else ""


def _finished(line: RunLine, results: ResultsFile) -> RunLine:
    last, metric = results.last.overall, results.primary.name
    gain = results.gain
    return replace(
        line,
        state="finished",
        model=results.model,
        phase="after training" if "final" in results.phases else "zero-shot",
        metric=spoken(metric),
        score=last.value,
        interval=span(last.ci95) if last.ci95 else "",
        gain=gain.value if gain else None,
        curve=_curve(line.folder, metric),
    )


def _begun(line: RunLine, folder: Path) -> RunLine:
    progress = read_progress(folder / REPORT)
    if progress is None:
        return replace(line, phase="nothing measured yet")
    at = datetime.fromisoformat(progress["at"])
    is_silent = (datetime.now().astimezone() - at).total_seconds() > SILENT_S
    state: State = "ended without results" if progress["is_over"] else "no sign of life" if is_silent else "running"
    steps = progress["steps"]
    done = f"step {progress['step']:,}" + ("" if steps is None else f" of {steps:,}")
    metric = progress["primary"]
    before = read_curves(folder / CURVES, {f"zero_shot/{metric}"}.__contains__).get(f"zero_shot/{metric}", ())
    return replace(
        line,
        state=state,
        phase=done,
        left_s=progress["left_s"] if state == "running" else None,
        metric=f"{spoken(metric)}, zero-shot" if before else "",
        score=before[-1].value if before else None,
        interval=span(ends) if before and (ends := before[-1].ci95) else "",
        curve=_curve(folder, metric),
    )


def read_progress(page: Path) -> Progress | None:
    """Returns how far a run is, from the page that it writes while it goes on; None without one."""
    if not _is_own(page):
        return None
    with page.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    found = re.search(rf'<meta name="{PROGRESS}" content="([^"]*)">', head)
    if found is None:
        return None
    return _PROGRESS.validate_json(unescape(found[1]))


def _is_own(page: Path) -> bool:
    return page.is_file() and not page.is_symlink()


def _curve(folder: Path, metric: str) -> Curve | None:
    names = {val_name(metric): f"{spoken(metric)} on validation", LOSS: "train loss"}
    curves = read_curves(folder / CURVES, names.__contains__)
    for name, title in names.items():
        if len(points := curves.get(name, ())) > 1:
            return Curve(f"{title}, last {plain(points[-1].value)}", _points(points))
    return None


def _points(points: Sequence[CurvePoint]) -> str:
    kept = points[:: max(1, len(points) // _POINTS)]
    values = [point.value for point in kept]
    low, high = min(values), max(values)
    across = AxisSpan(kept[0].step, kept[-1].step if kept[-1].step > kept[0].step else kept[0].step + 1)
    down = AxisSpan(high, low) if high > low else AxisSpan(high + 1, high - 1)
    return " ".join(f"{across(point.step):.1f},{down(point.value):.1f}" for point in kept)


def _written(folder: Path) -> datetime | None:
    times = [
        path.stat().st_mtime for name in (RESULTS, CURVES, REPORT, ENVIRONMENT) if (path := folder / name).is_file()
    ]
    return datetime.fromtimestamp(max(times)).astimezone() if times else None


def overview_html(root: Path, lines: Sequence[RunLine], *, is_served: bool) -> str:
    """Returns the page.

    Args:
        is_served: Whether `medtune view --serve` answers it, which compares runs where they are ticked.
    """
    states: list[State] = ["running", "finished", "ended without results", "no sign of life", "cannot be read"]
    return render(
        "overview.html.j2",
        root=str(root),
        lines=lines,
        counts=[(state, n) for state in states if (n := sum(line.state == state for line in lines))],
        is_served=is_served,
        refresh_s=REFRESH_S if is_served and any(line.state == "running" for line in lines) else None,
        sections=[("runs", "Runs")],
        form_action="'self'" if is_served else "'none'",
    )
