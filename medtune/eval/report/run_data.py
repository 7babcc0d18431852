"""Reads a run folder: everything that the report shows, checked and as plain data."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import with_config

from medtune.data.types import Interval
from medtune.data.yaml_text import yaml_text
from medtune.eval.comparing.verdict import difference_word
from medtune.eval.data_label import DataLabel
from medtune.eval.results.draws import ShownDraw, read_draws
from medtune.eval.results.gain_schema import Gain
from medtune.eval.results.metrics_file import read_metrics
from medtune.eval.results.phase_schema import Phase
from medtune.eval.results.schema import DOCUMENT, AuditFile, DoctorFile, ResultsFile
from medtune.eval.results.typed_json import AGAIN, read_json

LOSS, GRADIENT_NORM, RATES = "train/loss", "train/gradient_norm", "train/lr_"
REWARD = "reward/"
"""The beginning of the names of what draws and pairs told."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A value that was logged after a training step."""

    step: int
    value: float
    ci95: Interval | None = None  # Its 95 % interval; None if none was logged.


@with_config(DOCUMENT)
@dataclass(frozen=True, slots=True)
class Environment:
    """The fields of environment.json that the report shows."""

    command: tuple[str, ...] = ()
    medtune: str | None = None  # Version of medtune; None if it is not recorded.
    git_commit: str | None = None  # Commit of the medtune repository; None for an installed wheel.
    python: str | None = None  # Version of Python; None if it is not recorded.
    platform: str | None = None  # Operating system and processor; None if it is not recorded.
    devices: tuple[str, ...] = ()
    # Name of a package -> its version; None if it is not installed.
    packages: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunData:
    folder: Path
    results: ResultsFile
    written: date  # The day on which results.json was written, in UTC.
    recipe: str
    recipe_tree: Mapping[str, object]  # The resolved recipe as blocks and fields.
    environment: Environment
    weights: Mapping[str, str]  # Part of the model -> the origin of its weights.
    audit: AuditFile | None  # The content of audit.json; None if no audit was made.
    doctor: DoctorFile | None  # The content of doctor.json; None if the checkpoint was not proven.
    questions: Path | None  # The prepared folder that the user names; None for the one that is found.
    # The logged values of the curves that the report draws, as far as metrics.csv has them.
    curves: Mapping[str, tuple[CurvePoint, ...]]
    draws: tuple[ShownDraw, ...] = ()  # What the training drew to the same few questions.

    @property
    def primary(self) -> str:
        return self.results.primary.name

    @property
    def level_metric(self) -> str:
        return self.results.primary.level_name or self.primary

    @property
    def higher_is_better(self) -> bool:
        return self.results.primary.higher_is_better

    @property
    def difference(self) -> str:
        """What the tables call the difference of after and before: "gain", or of an error "change"."""
        return difference_word(higher_is_better=self.higher_is_better)

    @property
    def label(self) -> DataLabel:
        return self.results.label

    @property
    def phases(self) -> Mapping[str, Phase]:
        """The evaluations by phase: "zero_shot", "final" or both."""
        return self.results.phases

    @property
    def gain(self) -> Gain | None:
        return self.results.gain

    @property
    def last(self) -> Phase:
        return self.results.last

    def setting(self, block: str, name: str) -> object:
        """Returns a field of the recipe; None if the recipe does not have it."""
        found = self.recipe_tree.get(block)
        return found.get(name) if isinstance(found, dict) else None


def read_run(folder: Path, *, questions: Path | None = None) -> RunData:
    """Returns what a run wrote.

    Args:
        questions: The prepared folder of the run, if it has been moved from `data.root`; with None it is looked for.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such run folder")
    results_path = _needed(folder, "results.json", "did the run end? Continue it with --resume, or run again")
    results = read_json(results_path, ResultsFile)
    recipe, tree = _recipe(_needed(folder, "recipe.yaml", "copy the run folder again"))
    weights, audit, doctor = (folder / name for name in ("weights.json", "audit.json", "doctor.json"))
    return RunData(
        folder=folder,
        results=results,
        written=datetime.fromtimestamp(results_path.stat().st_mtime, UTC).date(),
        recipe=recipe,
        recipe_tree=tree,
        environment=read_json(_needed(folder, "environment.json", "copy the run folder again"), Environment),
        weights=read_json(weights, dict[str, str]) if weights.is_file() else {},
        audit=read_json(audit, AuditFile) if audit.is_file() else None,
        doctor=read_json(doctor, DoctorFile) if doctor.is_file() else None,
        questions=questions,
        curves=read_curves(folder / "metrics.csv", _is_drawn(results)),
        draws=read_draws(folder),
    )


def _needed(folder: Path, name: str, hint: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {hint}")
    return path


def _recipe(path: Path) -> tuple[str, dict[str, object]]:
    try:
        text = path.read_text("utf-8")
        tree = yaml_text(text, where=str(path))
    except ValueError as error:
        raise ValueError(f"{path}: not valid YAML ({error}). {AGAIN}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: wanted a recipe with its blocks, got {tree!r:.40}. {AGAIN}")
    return text, tree


def val_name(metric: str, *, facet: str = "", level: str = "") -> str:
    """Returns the name in metrics.csv of a metric on the validation questions, or on those of one level of a facet."""
    return f"val/{facet}={level}/{metric}" if facet else f"val/{metric}"


def _is_drawn(results: ResultsFile) -> Callable[[str], bool]:
    """Returns whether the report draws a curve of a name."""
    primary = results.primary
    whole = {LOSS, GRADIENT_NORM, val_name(primary.name)}
    level = f"/{primary.level_name or primary.name}"

    def is_drawn(name: str) -> bool:
        of_task = name.startswith("val/task=") and name.endswith(level)
        return name in whole or name.startswith((RATES, REWARD)) or of_task

    return is_drawn


def read_curves(path: Path, wanted: Callable[[str], bool]) -> dict[str, tuple[CurvePoint, ...]]:
    """Returns the values of the metrics that are wanted and that a metrics.csv has, in the order of the steps.

    Each has its interval where the file has one.
    """
    if not path.is_file():
        return {}
    values: dict[str, dict[int, float]] = {}
    for row in read_metrics(path):
        if math.isfinite(row.value):
            values.setdefault(row.name, {})[row.step] = row.value
    return {name: tuple(_points(values, name)) for name in values if wanted(name)}


def _points(values: Mapping[str, Mapping[int, float]], name: str) -> list[CurvePoint]:
    lows, highs = (values.get(f"{name}_ci95_{end}", {}) for end in ("low", "high"))
    return [
        CurvePoint(step, value, Interval(lows[step], highs[step]) if step in lows and step in highs else None)
        for step, value in values.get(name, {}).items()
    ]
