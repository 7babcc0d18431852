"""Opens the loggers of a run: metrics.csv in every run, W&B unless the recipe disables it, and those of `log.to`."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from medtune.data.files import replace_file
from medtune.data.prepared.manifest import Manifest
from medtune.data.readable import without_paths
from medtune.data.types import MediaGroup, Provenance
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel
from medtune.eval.report.running import RunningRun
from medtune.eval.results.metrics_file import HEADER, MetricRow, metric_lines, read_metrics
from medtune.eval.results.phase_schema import Level
from medtune.eval.scoring.score import PhaseScores
from medtune.models.endpoint.settings import without_address
from medtune.models.tuning.apply import PartRow
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.launch.started import how_started
from medtune.trainer.live_page import LivePage
from medtune.trainer.recipe.judge import unnamed
from medtune.trainer.recipe.read import recipe_tree
from medtune.trainer.recipe.schema import LogBlock, Recipe
from medtune.trainer.runs.run_folder import environment
from medtune.trainer.training.dashboard.further_loggers import further_loggers, is_further
from medtune.trainer.training.dashboard.sent_facets import TASK, WITHHELD_TASK, SentFacets, sent_facets
from medtune.trainer.training.dashboard.wandb_reach import FINISHED_S, Mode, refused_in_a_line, wandb_settings
from medtune.trainer.training.stages import PlannedStage, part_table

if TYPE_CHECKING:
    from medtune.trainer.training.dashboard.logger import Dashboard

_MAY_NAME_FILES = ("notes",)
METRICS = "metrics.csv"
TRAINING = ("train/", "reward/", "val/")
_HEAD = ",".join(HEADER) + "\n"
TOOK = "seconds"
"""The metric of a phase that says how long this process took to answer and score it."""
WAITED = "waited_for_media"
"""The metric of a phase that says which share of the time of answering went by in waiting for media, 0 to 1."""


def phase_metrics(phase: str, scores: PhaseScores, benchmark: Benchmark) -> dict[str, float]:
    """Returns the primary metric with its interval, overall and by facet, and all metrics of each condition and parser.

    A metric without a value is NaN. If questions were asked repeatedly, values are means over the passes; "_repeats" is
    the number of passes and "_repeat_sd" the standard deviation between them. The primary metric counts "_n" of
    "_asked" questions; "PHASE/outside/METRIC" has others, by the first metric that is about them. If the benchmark's
    scores need a judge, "PHASE/unscored" is the number of questions with an answer that waits for it.
    "PHASE/CONDITION/cut" is the share of replies that were cut, "cut_in_thought" that of thoughts.
    """
    flat = _level(f"{phase}/{benchmark.primary}", scores.overall)
    flat[f"{phase}/{benchmark.primary}_asked"] = float(scores.asked)
    flat |= {f"{phase}/outside/{name}": score.number for name, score in scores.outside.items()}
    for facet, levels in scores.by.items():
        for name, level in levels.items():
            flat |= _level(f"{phase}/{facet}={name}/{benchmark.level_metric}", level)
    for condition, parsers in scores.metrics.items():
        for parser, metrics in parsers.items():
            for name, score in metrics.items():
                flat[f"{phase}/{condition}/{parser}/{name}"] = score.number
    for shown, cut in scores.cut.items():
        flat[f"{phase}/{shown}/cut"] = cut.cut / cut.n
        if cut.in_thought:
            flat[f"{phase}/{shown}/cut_in_thought"] = cut.in_thought / cut.n
    if benchmark.judging is not None and not benchmark.judging.is_extra:
        flat[f"{phase}/unscored"] = float(scores.unscored)
    return flat


def _level(name: str, score: Level) -> dict[str, float]:
    flat = {name: score.number, f"{name}_n": float(score.n)}
    if score.repeats > 1:
        flat[f"{name}_repeats"] = float(score.repeats)
    if score.repeat_sd is not None:
        flat[f"{name}_repeat_sd"] = score.repeat_sd
    if score.ci95 is not None:
        flat |= {f"{name}_ci95_low": score.ci95.low, f"{name}_ci95_high": score.ci95.high}
    return flat


def logged_config(recipe: Recipe, manifest: Manifest, label: DataLabel, facets: SentFacets) -> dict[str, object]:
    """Returns the recipe, the data's manifest and label, and the environment, in the form that is sent to W&B.

    Only the last part of each path is kept, and no address of a server. The command line and the notes of the source
    are left out, because they may hold folders and file names of a hospital.
    """
    checkpoint, endpoint = recipe.model.checkpoint, recipe.model.endpoint
    named = dataclasses.replace(
        recipe,
        data=dataclasses.replace(
            recipe.data,
            root=Path(recipe.data.root.name),
            mixture=tuple(dataclasses.replace(part, root=Path(part.root.name)) for part in recipe.data.mixture),
        ),
        model=dataclasses.replace(
            recipe.model,
            checkpoint=checkpoint and Path(checkpoint.name),
            endpoint=endpoint and without_address(endpoint),
        ),
        eval=dataclasses.replace(recipe.eval, judge=recipe.eval.judge and unnamed(recipe.eval.judge)),
    )
    data = {key: value for key, value in dataclasses.asdict(manifest).items() if key not in _MAY_NAME_FILES}
    data["counts"] = {split: _sent_counts(counts, facets) for split, counts in manifest.counts.items()}
    around = {key: value for key, value in environment(()).items() if key != "command"}
    tree: dict[str, object] = _without_paths(recipe_tree(named))
    return {**tree, "manifest": data, "label": label.facts(), "environment": around}


def _sent_counts(counts: Mapping[str, int], facets: SentFacets) -> dict[str, int]:
    """Returns the number of questions of each task; those of tasks that stay here are one number."""
    found: Counter[str] = Counter()
    for task, number in counts.items():
        found[task if facets.takes(TASK, task) else WITHHELD_TASK] += number
    return dict(found)


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_paths(each) for each in value]
    if isinstance(value, str | Path):
        text = str(value)
        return Path(text).name if os.sep in text and Path(text).exists() else without_paths(text)
    return value


@contextmanager
def opened_loggers(experiment: Experiment) -> Iterator[list[Logger]]:
    """Gives the loggers of a run; a resumed run continues its curves after the saved step.

    A run that falls ends on W&B too, as failed: the next run of this process would else be logged into it.
    """
    loggers = _open_loggers(experiment)
    try:
        yield loggers
    except BaseException:
        if dashboard := dashboard_of(loggers):
            dashboard.end(failed=True)
        for logger in filter(is_further, loggers):
            logger.finalize("failed")
        raise


def _open_loggers(experiment: Experiment) -> list[Logger]:
    recipe, manifest, folder = experiment.recipe, experiment.prepared.manifest, experiment.folder
    facets = sent_facets(experiment.benchmark, recipe.log, manifest.provenance)
    config = logged_config(recipe, manifest, experiment.label, facets)
    loggers = build_loggers(
        folder.root,
        recipe.log,
        experiment.benchmark,
        mode=experiment.wandb,
        provenance=manifest.provenance,
        recipe_name=experiment.name,
        group=experiment.name if recipe.data.fold is None else f"{experiment.name} {folder.root.resolve().parent.name}",
        config=config,
        tags=[recipe.model.shown_name, recipe.data.benchmark, manifest.provenance],
        facets=facets,
        resume_step=folder.saved_step(),
    )
    about = RunningRun(
        title=f"{experiment.benchmark.title}: {experiment.name}",
        subtitle=f"{recipe.model.shown_name}, split {recipe.eval.split}",
        banners=experiment.label.banners(),
        primary=experiment.benchmark.primary,
        steps=recipe.total_steps if all(stage.max_steps is not None for stage in recipe.stages) else None,
    )
    further = further_loggers(
        folder.root,
        recipe.log,
        name=f"{experiment.name} {folder.root.name}",
        config=config,
        facets=facets,
        resume_step=folder.saved_step(),
    )
    return [*loggers, *further, LivePage(folder.root, about, results=folder.results, left=experiment.left)]


def log_phase(
    experiment: Experiment,
    loggers: Sequence[Logger],
    name: str,
    scores: PhaseScores,
    *,
    groups: Sequence[MediaGroup],
    out_dir: Path,
    step: int,
    also: Mapping[str, float],
) -> None:
    """Logs the scores of a phase, and shows its answers on the dashboard."""
    for logger in loggers:
        logger.log_metrics({**phase_metrics(name, scores, experiment.benchmark), **also}, step=step)
        logger.save()
    if dashboard := dashboard_of(loggers):
        media = {group.media_id: group.media for group in groups}
        dashboard.show_phase(name, scores, media, out_dir=out_dir, step=step)


def log_parts(
    experiment: Experiment, loggers: Sequence[Logger], planned: PlannedStage, rows: Sequence[PartRow]
) -> None:
    """Prints and logs the table of trainable parts at the beginning of a stage."""
    if len(experiment.recipe.stages) > 1:
        steps = f"steps {planned.first_step + 1} to {planned.last_step}"
        experiment.say(f"stage {planned.number}, {planned.stage.name}: {steps}")
    experiment.say(part_table(rows))
    for logger in loggers:
        logger.log_hyperparams({"trainable_parts": {row.part: asdict(row) for row in rows}})
    if dashboard := dashboard_of(loggers):
        dashboard.show_parts(rows, stage=planned.number)


def close_loggers(loggers: Sequence[Logger]) -> None:
    """Lets the loggers write the metrics that they still hold, and ends the run on the dashboard."""
    for logger in loggers:
        logger.finalize("success")
    if dashboard := dashboard_of(loggers):
        dashboard.end()
        if said := how_to_send(dashboard):
            print(said, flush=True)


def how_to_send(dashboard: Dashboard) -> str:
    """Returns how what is not sent is sent to W&B: all folders of an offline run, one for each start, as one run."""
    if dashboard.unsent:
        said = f"W&B did not take the end of the run within {FINISHED_S} seconds, which is kept"
        return f"{said}. This sends it: wandb sync {dashboard.unsent}"
    if not dashboard.is_offline:
        return ""
    folder = Path(str(dashboard.save_dir)) / "wandb"
    parts = len(list(folder.glob("offline-run-*")))
    several = f" as one run, in the order of its {parts} parts" if parts > 1 else ""
    return f"W&B: logged offline. This sends it{several}: wandb sync --id {dashboard.version} {folder}"


def build_loggers(
    root: Path,
    block: LogBlock,
    benchmark: Benchmark,
    *,
    mode: Mode,
    provenance: Provenance,
    recipe_name: str,
    group: str,
    config: dict[str, object],
    tags: list[str],
    facets: SentFacets,
    resume_step: int,
) -> list[Logger]:
    """Returns the loggers of a run, with the settings of the recipe's block `log`.

    Args:
        mode: How W&B is used, as `wandb_mode` found out.
        resume_step: The saved step of an interrupted run, or 0. Rows of metrics.csv after it are dropped, because the
            resumed run writes them again.
    """
    loggers: list[Logger] = [MetricsFile(root, resume_step=resume_step)]
    if mode == "disabled":
        return loggers
    from medtune.trainer.training.dashboard.logger import Dashboard

    options = _wandb_options(root, block, recipe_name=recipe_name, group=group, offline=mode == "offline")
    images = shows_images(block, provenance)
    dashboard = Dashboard(benchmark=benchmark, images=images, facets=facets, config=config, tags=tags, **options)
    with refused_in_a_line():
        dashboard.begin()
    return [*loggers, dashboard]


def shows_images(block: LogBlock, provenance: Provenance) -> bool:
    """Returns whether pictures and free texts of single cases may be logged.

    By default only those of simulated data may be: W&B is online wherever a key is set, and nobody should send a
    patient's image away without having decided to. Data with the provenance "released" count as real, because only the
    user can know who may receive them.
    """
    return block.images == "always" or (block.images == "auto" and provenance == "synthetic")


def dashboard_of(loggers: Sequence[Logger]) -> Dashboard | None:
    """Returns the dashboard among a run's loggers; None if W&B is disabled."""
    others = (each for each in loggers if not isinstance(each, MetricsFile | LivePage) and not is_further(each))
    return next((cast("Dashboard", logger) for logger in others), None)


class MetricsFile(Logger):
    """Appends to metrics.csv; lines of training and validation up to `resume_step` are kept, later ones dropped."""

    def __init__(self, root: Path, *, resume_step: int) -> None:
        super().__init__()
        self._path = root / METRICS
        self._begin(resume_step)

    @rank_zero_only
    def _begin(self, resume_step: int) -> None:
        if self._path.is_file():
            rows = read_metrics(self._path)
            kept = [row for row in rows if row.step <= resume_step and row.name.startswith(TRAINING)]
            replace_file(self._path, [f"{_HEAD}{metric_lines(kept)}".encode()])

    @property
    def name(self) -> str:
        return METRICS

    @property
    def version(self) -> str:
        """Empty, as a run has one file."""
        return ""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Appends a line for each value, all at once."""
        lines = metric_lines(MetricRow(step or 0, name, float(value)) for name, value in metrics.items())
        # Without a buffer, so that a process that is killed leaves whole lines.
        with self._path.open("ab", buffering=0) as file:
            file.write((lines if file.tell() else _HEAD + lines).encode())

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Does nothing: recipe.yaml holds the settings."""


def _wandb_options(root: Path, block: LogBlock, *, recipe_name: str, group: str, offline: bool) -> dict[str, Any]:
    try:
        import wandb
    except ImportError as error:
        raise ValueError("log.wandb needs W&B: pip install wandb, or set log.wandb=disabled") from error
    # W&B copies the images of tables to this folder before it sends them. By default it lies in the user's home.
    os.environ["WANDB_DATA_DIR"] = str((root / "wandb").resolve())
    return {
        "project": block.project,
        "name": f"{recipe_name} {root.name}",
        "version": _wandb_id(root),
        "save_dir": root,
        "offline": offline,
        "group": group,
        "mode": "offline" if offline else "online",
        "resume": None if offline else "allow",
        "settings": wandb.Settings(**wandb_settings()),
    }


def _wandb_id(root: Path) -> str:
    path = root / "wandb" / "run_id"
    if not path.is_file() and how_started().rank == 0:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, [uuid.uuid4().hex[:12].encode()])
    return path.read_text() if path.is_file() else "rank-above-0"
