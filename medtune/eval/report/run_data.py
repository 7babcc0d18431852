"""A run folder as plain data: what the report shows, read once and checked."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import yaml

from medtune.eval.data_label import LABEL_FIELDS, DataLabel, recorded_label
from medtune.eval.report.checked_json import AGAIN, Node, read_json
from medtune.eval.scoring.refusals import Refusals

Interval = tuple[float, float]
PHASES = ("zero_shot", "final")


@dataclass(frozen=True, slots=True)
class Level:
    """The primary metric on some of the questions, as results.json has it.

    Attributes:
        value: None where the metric has none on these questions.
        unscored: Answers that wait for a judge; they are not among the `n`.
        baselines: By name; None where one does not apply.
    """

    value: float | None
    n: int
    ci95: Interval | None
    unparsable: int
    unanswered: int
    baselines: Mapping[str, float | None]
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One metric of one reading under one condition; `unscored` answers are not among the `n`."""

    condition: str
    parser: str
    metric: str
    value: float | None
    n: int
    ci95: Interval | None
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table that the benchmark made in the shape of its paper."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]
    notes: tuple[str, ...]
    digits: int


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose confidence lies between `low` and `high`."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether confidence means what it says; `ece` is the expected calibration error."""

    ece: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """One evaluation.

    Attributes:
        unscored: Answers to any question that wait for a judge.
        uncounted: Questions that the primary reading leaves out, by task.
    """

    parser: str
    overall: Level
    by: Mapping[str, Mapping[str, Level]]
    metrics: tuple[MetricScore, ...]
    tables: tuple[PaperTable, ...]
    calibration: Calibration | None
    refusals: Refusals | None = None
    unscored: int = 0
    uncounted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """The gain on some of the questions.

    Attributes:
        counts: Questions by "both_right", "only_before", "only_after" and "both_wrong".
        p: McNemar's, exact.
        p_holm: The same, corrected over the levels; None where the run has none.
        p_permutation: With the sign flipped for whole patients; None where the run has none.
        unscored: Questions left out because an answer, before or after, waits for a judge.
    """

    value: float
    n: int
    ci95: Interval | None
    p: float
    p_holm: float | None
    p_permutation: float | None
    counts: Mapping[str, int]
    unscored: int = 0


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain overall and per level of each facet."""

    overall: Change
    by: Mapping[str, Mapping[str, Change]]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A logged value after a training step."""

    step: int
    value: float
    ci95: Interval | None = None


@dataclass(frozen=True, slots=True)
class RunData:
    """What a run folder says.

    Attributes:
        phases: "zero_shot" and "final", or the one that there is.
        recipe: The resolved recipe as it was written.
        recipe_tree: The same, parsed.
        trained_on: The prepared folders that were learnt, in words; "" where none was.
        weights: Group of the model -> where its weights come from.
        unavailable: Reading that the model cannot give -> why.
        audit: audit.json; None where no audit was made.
        curves: "train/loss" and the primary metric on validation, where metrics.csv has them.
    """

    folder: Path
    benchmark: str
    benchmark_version: str
    model: str
    primary: str
    higher_is_better: bool
    recipe_name: str
    data_hash: str
    label: DataLabel
    trained_on: str
    written: date
    phases: Mapping[str, Phase]
    gain: Gain | None
    recipe: str
    recipe_tree: Mapping[str, object]
    environment: Node
    weights: Mapping[str, str]
    unavailable: Mapping[str, str]
    audit: Node | None
    curves: Mapping[str, tuple[CurvePoint, ...]]

    @property
    def last(self) -> Phase:
        """The phase that the run ended with."""
        return self.phases.get("final") or self.phases["zero_shot"]

    def setting(self, block: str, name: str) -> object:
        """Returns a field of the recipe; None where it is not there."""
        found = self.recipe_tree.get(block)
        return found.get(name) if isinstance(found, dict) else None


def read_run(folder: Path) -> RunData:
    """Returns what a run folder says.

    Raises:
        FileNotFoundError: There is no such folder, or results.json, recipe.yaml or environment.json is missing.
        ValueError: A file is broken; the message names it, with the field.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such run folder")
    results_path = _needed(folder, "results.json", "did the run end? Continue it with --resume, or run again")
    results = read_json(results_path)
    phases = {name: _phase(node) for name, node in results["phases"].fields() if name in PHASES}
    if not phases:
        raise results["phases"].error('a phase "zero_shot" or "final"')
    primary = results["primary"]["name"].text()
    recipe, tree = _recipe(_needed(folder, "recipe.yaml", "copy the run folder again"))
    weights, audit = folder / "weights.json", folder / "audit.json"
    return RunData(
        folder=folder,
        benchmark=results["benchmark"].text(),
        benchmark_version=results["benchmark_version"].text_or("unknown"),
        model=results["model"].text(),
        primary=primary,
        higher_is_better=results["primary"]["higher_is_better"].truth(),
        recipe_name=results["recipe"].text_or("unknown"),
        data_hash=results["data_hash"].text_or(""),
        label=recorded_label({name: results[name].text_or("") for name in LABEL_FIELDS}),
        trained_on=results["trained_on"].text_or(""),
        written=datetime.fromtimestamp(results_path.stat().st_mtime, UTC).date(),
        phases={name: phases[name] for name in PHASES if name in phases},
        gain=_gain(results["gain"]) if results["gain"].value is not None else None,
        recipe=recipe,
        recipe_tree=tree,
        environment=read_json(_needed(folder, "environment.json", "copy the run folder again")),
        weights={k: v.text() for k, v in read_json(weights).fields()} if weights.is_file() else {},
        unavailable={reading: why.text() for reading, why in results["unavailable"].fields()},
        audit=read_json(audit) if audit.is_file() else None,
        curves=_curves(folder / "metrics.csv", ("train/loss", f"validation/{primary}")),
    )


def _needed(folder: Path, name: str, hint: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {hint}")
    return path


def _phase(node: Node) -> Phase:
    return Phase(
        parser=node["parser"].text_or("unknown"),
        overall=_level(node["overall"]),
        by={facet: {name: _level(one) for name, one in levels.fields()} for facet, levels in node["by"].fields()},
        metrics=tuple(
            MetricScore(
                condition,
                parser,
                name,
                one["value"].maybe_number(),
                one["n"].count(),
                one["ci95"].maybe_pair(),
                _unscored(one),
            )
            for condition, parsers in node["metrics"].fields()
            for parser, scores in parsers.fields()
            for name, one in scores.fields()
        ),
        tables=tuple(_table(table) for table in node["tables"].items()),
        calibration=_calibration(node["calibration"]) if node["calibration"].value is not None else None,
        refusals=_refusals(node["refusals"]) if node["refusals"].value is not None else None,
        unscored=_unscored(node),
        uncounted={task: number.count() for task, number in node["uncounted"].fields()},
    )


def _unscored(node: Node) -> int:
    """Nothing waits for a judge in a run that does not say so."""
    return 0 if node["unscored"].value is None else node["unscored"].count()


def _refusals(node: Node) -> Refusals:
    return Refusals(*(node[name].count() for name in ("n", "filtered", "refused", "in_words")))


def _level(node: Node) -> Level:
    return Level(
        value=node["value"].maybe_number(),
        n=node["n"].count(),
        ci95=node["ci95"].maybe_pair(),
        unparsable=node["unparsable"].count(),
        unanswered=node["unanswered"].count(),
        baselines={name: value.maybe_number() for name, value in node["baselines"].fields()},
        unscored=_unscored(node),
    )


def _table(node: Node) -> PaperTable:
    columns = tuple(column.text() for column in node["columns"].items())
    rows = tuple(tuple(_cell(cell) for cell in row.items()) for row in node["rows"].items())
    if any(len(row) != len(columns) for row in rows):
        raise node["rows"].error(f"{len(columns)} cells in each row")
    digits = node["digits"]
    return PaperTable(
        title=node["title"].text(),
        columns=columns,
        rows=rows,
        notes=tuple(note.text() for note in node["notes"].items()),
        digits=3 if digits.value is None else digits.count(),
    )


def _cell(node: Node) -> str | float | None:
    if node.value is None or isinstance(node.value, str):
        return node.value
    return node.count() if isinstance(node.value, int) and node.value >= 0 else node.number()


def _calibration(node: Node) -> Calibration:
    bins = tuple(
        Bin(
            low=one["low"].number(),
            high=one["high"].number(),
            n=one["n"].count(),
            confidence=one["confidence"].maybe_number(),
            accuracy=one["accuracy"].maybe_number(),
        )
        for one in node["bins"].items()
    )
    return Calibration(ece=node["ece"].number(), bins=bins)


def _gain(node: Node) -> Gain:
    by = {facet: {name: _change(one) for name, one in levels.fields()} for facet, levels in node["by"].fields()}
    return Gain(overall=_change(node), by=by)


def _change(node: Node) -> Change:
    names = ("both_right", "only_before", "only_after", "both_wrong")
    return Change(
        value=node["value"].number(),
        n=node["n"].count(),
        ci95=node["ci95"].maybe_pair(),
        p=node["mcnemar_p"].number(),
        p_holm=node["mcnemar_p_holm"].maybe_number(),
        p_permutation=node["permutation_p"].maybe_number(),
        counts={name: node["counts"][name].count() for name in names},
        unscored=_unscored(node),
    )


def _recipe(path: Path) -> tuple[str, dict[str, object]]:
    try:
        text = path.read_text("utf-8")
        tree = yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}). {AGAIN}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: wanted a recipe with its blocks, got {tree!r:.40}. {AGAIN}")
    return text, tree


def _curves(path: Path, names: tuple[str, ...]) -> dict[str, tuple[CurvePoint, ...]]:
    """The named columns of metrics.csv; nothing where the file is missing, as after an evaluation alone."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        try:
            rows = list(csv.DictReader(file))
            found = {name: tuple(_points(rows, name)) for name in names}
        except (csv.Error, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not the table of a run ({error!r}). {AGAIN}") from error
    return {name: points for name, points in found.items() if points}


def _points(rows: list[dict[str, str]], name: str) -> list[CurvePoint]:
    points = []
    for row in rows:
        value = _float(row.get(name))
        if value is not None:
            low, high = _float(row.get(f"{name}_ci95_low")), _float(row.get(f"{name}_ci95_high"))
            interval = (low, high) if low is not None and high is not None else None
            points.append(CurvePoint(int(row["step"]), value, interval))
    return points


def _float(text: str | None) -> float | None:
    value = float(text) if text else math.nan
    return value if math.isfinite(value) else None
