"""The W&B logger of a run: logs metrics under the dashboard's names, tables, charts and the summary, on rank 0 only.

These are never sent to W&B: patient ids, file names, paths of folders (only the last part is sent), host and user
names, the command line, and code. Pictures and free texts of single cases are sent only for simulated data, unless
`log.images` is "always". Scores by the columns of a user's own data are sent where `log.facets` names these.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import WandbLogger
from lightning_utilities.core.rank_zero import rank_zero_only

from medtune.data.types import MediaRef
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import Gains, PairedGain
from medtune.eval.published import PublishedNumber
from medtune.eval.results.draws import ShownDraw
from medtune.eval.results.schema import ScoresFile
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.answer_classes import TaskClasses
from medtune.eval.scoring.score import PhaseScores
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.intervals import method_for
from medtune.models.tuning.apply import PartRow
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training.dashboard import cases
from medtune.trainer.training.dashboard.panels import (
    OVERALL,
    STEP,
    definition,
    panel_name,
    reference_metrics,
    workspace_script,
)
from medtune.trainer.training.dashboard.sent_facets import EVERY_FACET, TASK, SentFacets

LOW, HIGH = "95 % low", "95 % high"

WORKSPACE = "workspace.py"
UNREAD = "(not read)"


@dataclass(frozen=True, slots=True)
class PlottedLine:
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


def task_curves(
    folder: RunFolder, references: Sequence[PublishedNumber], *, last_step: int, split: str
) -> Mapping[str, tuple[PlottedLine, ...]]:
    """Returns the chart lines of "overall" and of each task (for instance "task=diagnosis").

    The validation questions and the questions of `split` differ, so each of the two has lines of its own: the score and
    both ends of its interval. A published number is a horizontal line whose name says that it belongs to another model
    and other data.
    """
    measured = {
        "validation": list(_validation(folder)),
        f"{split}, before and after": [
            (step, _scores(path)) for step, path in ((0, folder.zero_shot), (last_step, folder.final)) if _has(path)
        ],
    }
    tasks = {name for phases in measured.values() for _, scores in phases for name in scores.by.get("task", {})}
    found = {}
    for task in (None, *sorted(tasks)):
        lines = [line for name, phases in measured.items() for line in _band(name, phases, task)]
        for reference in references:
            if (reference.facet, reference.level) == (task and "task", task):
                name = f"published, other model, other data: {reference.model}"
                lines.append(PlottedLine(name, (0, last_step), (reference.value, reference.value)))
        found[f"task={task}" if task else OVERALL] = tuple(lines)
    return found


def _band(name: str, phases: Sequence[tuple[int, ScoresFile]], task: str | None) -> Iterator[PlottedLine]:
    points = []
    for step, scores in phases:
        level = scores.overall if task is None else scores.by.get("task", {}).get(task)
        if level and level.value is not None:
            points.append((step, level.value, level.ci95))
    if not points:
        return
    yield PlottedLine(name, tuple(step for step, _, _ in points), tuple(value for _, value, _ in points))
    ends = [(step, ci95) for step, _, ci95 in points if ci95]
    for place, end in enumerate((LOW, HIGH)):
        if ends:
            yield PlottedLine(f"{name}, {end}", tuple(step for step, _ in ends), tuple(ci95[place] for _, ci95 in ends))


def _validation(folder: RunFolder) -> Iterator[tuple[int, ScoresFile]]:
    for path in sorted(folder.validation(0).parent.glob("step_*")):
        if _has(path):
            yield int(path.name.removeprefix("step_")), _scores(path)


def _has(phase: Path) -> bool:
    return (phase / "scores.json").is_file()


def _scores(phase: Path) -> ScoresFile:
    return read_json(phase / "scores.json", ScoresFile)


class Dashboard(WandbLogger):
    """Lightning's W&B logger with the dashboard's names of metrics, and with tables, confusion matrices and a summary.

    Args:
        images: Whether pictures and free texts of single cases may be logged.
        facets: The facets by whose levels scores may be logged.
        wandb_options: Options of Lightning's `WandbLogger` and of `wandb.init`.
    """

    def __init__(
        self, *, benchmark: Benchmark, images: bool, facets: SentFacets = EVERY_FACET, **wandb_options: Any
    ) -> None:
        super().__init__(**wandb_options)
        # Lightning passes on what it has no value for, of which wandb then warns.
        self._wandb_init.pop("anonymous", None)
        self._benchmark = benchmark
        self._images = images
        self._facets = facets
        self._defined: set[str] = set()
        self._groups: list[list[object]] = []
        self._draws: list[list[object]] = []
        self._pictures: dict[tuple[str, tuple[int, int], bytes], Any] = {}
        self.unsent: Path | None = None  # The folder of an online run whose end W&B did not take; None where it did.

    @property
    def is_offline(self) -> bool:
        """Whether the run is kept in its folder, from where `wandb sync` sends it."""
        return bool(self._offline)

    @rank_zero_only
    def begin(self) -> None:
        """Begins the run on W&B; an offline run that goes on counts its steps behind those of the parts before."""
        run = self.experiment
        before = self._next_step
        if self.is_offline and before.is_file():
            run.log({}, step=int(before.read_text("ascii")) + 1)

    @property
    def _next_step(self) -> Path:
        return Path(str(self.save_dir)) / "wandb" / "next_step"

    def _note_step(self) -> None:
        # Each offline part would count from 0, and W&B keeps one point for each of its steps.
        if self.is_offline:
            written = self._next_step.with_suffix(".new")
            written.write_text(str(self.experiment.step + 1), "ascii")
            written.replace(self._next_step)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs metrics under their names on W&B, and with those of an evaluation the published numbers."""
        metrics = {name: value for name, value in metrics.items() if self._facets.keeps(name)}
        renamed = {panel_name(name): value for name, value in metrics.items()}
        renamed |= reference_metrics(metrics, self._benchmark)
        for name in renamed.keys() - self._defined:
            how = definition(name, self._benchmark)
            self.experiment.define_metric(name, step_metric=STEP, summary=how.summary, hidden=how.hidden)
            self._defined.add(name)
        super().log_metrics(renamed, step)
        self._note_step()

    @rank_zero_only
    def show_parts(self, rows: Sequence[PartRow], *, stage: int) -> None:
        import wandb

        columns = ["stage", "part", "mode", "learning rate", "parameters", "trainable", "LoRA modules", "in 4 bits",
                   "stored in", "learns in"]  # fmt: skip
        self._groups += [
            [stage, r.part, r.mode, r.lr, r.parameters, r.trainable, r.adapted_modules, r.quantized, r.stored, r.learns]
            for r in rows
        ]
        self.experiment.log({"model/trainable parts": wandb.Table(columns=columns, data=self._groups)})

    @rank_zero_only
    def show_phase(
        self, name: str, scores: PhaseScores, media: Mapping[str, tuple[MediaRef, ...]], *, out_dir: Path, step: int
    ) -> None:
        """Logs a phase's single cases and the confusion of each task."""
        import wandb

        rows = cases.case_rows(
            scores.rows, media, predictions=out_dir / "predictions.jsonl", images=self._images, facets=self._facets
        )
        place = cases.COLUMNS.index("image")
        for row in rows:
            row[place] = None if row[place] is None else self._encoded(row[place])
        panels: dict[str, Any] = {f"{name}/cases": wandb.Table(columns=[*cases.COLUMNS], data=rows)}
        # The tables of own data list labels and questions of the user's, that of metrics alone does not.
        own = () if self._benchmark.any_facet and self._facets.names is not None else scores.tables
        for title, columns, cells in phase_tables(scores, own):
            panels[f"{name}/tables/{title}"] = wandb.Table(columns=[*columns], data=[[*row] for row in cells])
        for task in scores.classes:
            if not self._facets.takes(TASK, task.task):
                continue
            part = task.name.removeprefix(task.task).removeprefix(": ")
            true, read = confusion_pairs(task)
            panels[f"task={task.task}/{name}/{f'{part} ' if part else ''}confusion"] = wandb.plot.confusion_matrix(
                y_true=true,
                preds=read,
                class_names=[*(each.name for each in task.classes), *([UNREAD] if len(task.classes) in read else [])],
                title=f"{task.name}, {name.replace('_', '-')}: truth and answer, {task.n} questions",
            )
        self.experiment.log({**panels, STEP: step})
        shown = f"{len(rows)} of {len(scores.rows)} questions, evenly over the tasks"
        self.experiment.config.update({"cases_shown": {name: shown}}, allow_val_change=True)

    def _encoded(self, picture: Any) -> Any:
        """Returns W&B's picture; several questions of several phases show the same one, which is encoded once."""
        import wandb

        key = picture.mode, picture.size, hashlib.sha256(picture.tobytes()).digest()
        if key not in self._pictures:
            self._pictures[key] = wandb.Image(picture)
        return self._pictures[key]

    @rank_zero_only
    def show_draws(self, draws: Sequence[ShownDraw], *, step: int) -> None:
        """Logs replies that were drawn to the same few questions; their texts only where texts may be sent."""
        import wandb

        columns = ["step", "question", "answer", "reply", "read", "score", "paid"]
        self._draws += [
            [each.step, *(self._text(text) for text in (each.question, each.answer, each.reply, each.read)), each.score,
             each.paid]
            for each in draws
        ]  # fmt: skip
        self.experiment.log({"reward/draws": wandb.Table(columns=columns, data=self._draws), STEP: step})

    def _text(self, text: str | None) -> str | None:
        return text if self._images or text is None else cases.WITHHELD

    @rank_zero_only
    def show_results(
        self, phases: Mapping[str, PhaseScores], gain: Gains | None, folder: RunFolder, *, last_step: int, split: str
    ) -> None:
        """Logs the gain, the curves of each task and the summary, and saves the script that builds the workspace."""
        import wandb

        curves = {
            level: lines
            for level, lines in task_curves(
                folder, self._benchmark.references(), last_step=last_step, split=split
            ).items()
            if level == OVERALL or self._facets.takes(*level.split("=", 1))
        }
        if gain:
            by_task = {task: each for task, each in gain.by.get(TASK, {}).items() if self._facets.takes(TASK, task)}
            gain = replace(gain, by={**gain.by, TASK: by_task})
        panels: dict[str, Any] = {}
        for level, lines in curves.items():
            panels[f"{level}/curve"] = wandb.plot.line_series(
                xs=[line.steps for line in lines],
                ys=[line.values for line in lines],
                keys=[line.name for line in lines],
                title=f"{level}: {self._benchmark.level_metric if '=' in level else self._benchmark.primary}",
                xname="optimizer step",
            )
        if gain:
            columns, rows = _gain_rows(gain)
            panels["gain/by task"] = wandb.Table(columns=columns, data=rows)
        self.experiment.log({**panels, STEP: last_step})
        patients = [row.question.patient_id for row in [*phases.values()][-1].rows]
        self.experiment.config.update({"interval_method": method_for(patients)}, allow_val_change=True)
        self.experiment.summary.update(summary(phases, gain))
        path = Path(self.experiment.dir) / WORKSPACE
        group, project = str(self._wandb_init["group"]), str(self._project)
        path.write_text(workspace_script(self._benchmark, [*curves], group=group, project=project), "utf-8")
        self.experiment.save(str(path), base_path=str(path.parent), policy="now")

    @rank_zero_only
    def end(self, *, failed: bool = False) -> None:
        """Ends the W&B run; otherwise the next run of this process would be logged into it."""
        if self._experiment is not None:
            if not failed:
                self._note_step()
            try:
                self._experiment.finish(exit_code=int(failed))
            except TimeoutError:
                self.unsent = Path(self._experiment.dir).parent


def phase_tables(
    scores: PhaseScores, own: Sequence[Table]
) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[Cell]]]]:
    """Yields a phase's tables by title: the benchmark's `own`, as text, and that of every metric of every reading."""
    for table in own:
        # A column of a W&B table has one type; some of these hold numbers and words.
        texts = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
        yield table.title, table.columns, texts
    columns = ["condition", "read by", "metric", "value", "95 % low", "95 % high", "n"]
    yield (
        "every metric",
        columns,
        [
            [condition, parser, name, score.number, *(score.ci95 or (None, None)), score.n]
            for condition, parsers in scores.metrics.items()
            for parser, metrics in parsers.items()
            for name, score in metrics.items()
        ],
    )


def confusion_pairs(task: TaskClasses) -> tuple[list[int], list[int]]:
    """Returns for each question of a task the numbers of its true class and of the class that was read.

    A reply that could not be read has the number behind the last class.
    """
    pairs = [
        (true, read)
        for true, line in enumerate(task.confusion)
        for read, number in enumerate(line)
        for _ in range(number)
    ]
    return [true for true, _ in pairs], [read for _, read in pairs]


def summary(phases: Mapping[str, PhaseScores], gain: Gains | None) -> dict[str, float]:
    """Returns the columns of W&B's table of runs: the score of each phase, the gain, its interval and p values.

    "gain_p" is the p value over all questions from swaps of before and after for whole patients, and
    "gain_p_holm/TASK" that of a task after Holm's correction. "gain_p_mcnemar" is McNemar's, which takes questions as
    independent. "gain_of_answers" is the part of the gain on questions whose replies could be read both times, and
    "gain_of_format" the rest. A phase whose score has no value, because no answer was judged yet, has no score here.
    "PHASE_unscored" is the number of answers that wait for a judge, and "PHASE_repeats" the number of passes that the
    score is the mean of, if there are several. The score counts "PHASE_n" of "PHASE_asked" questions;
    "PHASE_outside/METRIC" is the score of others, by the first metric that is about them.
    """
    found = {name: value for name, phase in phases.items() if (value := phase.overall.value) is not None}
    found |= {f"{name}_unscored": float(phase.unscored) for name, phase in phases.items() if phase.unscored}
    for name, phase in phases.items():
        score = phase.overall
        found |= {f"{name}_n": float(score.n), f"{name}_asked": float(phase.asked)}
        found |= {f"{name}_outside/{metric}": each.number for metric, each in phase.outside.items()}
        if score.repeats > 1:
            found[f"{name}_repeats"] = float(score.repeats)
        ci95 = score.ci95
        if ci95:
            found |= {f"{name}_ci95_low": ci95.low, f"{name}_ci95_high": ci95.high}
    if gain:
        found |= {"gain": gain.value, "gain_p": gain.permutation_p, "gain_n": float(gain.n)}
        found["gain_p_mcnemar"] = gain.mcnemar_p
        found |= {"gain_ci95_low": gain.ci95.low, "gain_ci95_high": gain.ci95.high}
        found |= dict(zip(("gain_of_answers", "gain_of_format"), _parts(gain), strict=True))
        if (part := gain.readability) and part.ci95:
            found |= {"gain_of_answers_ci95_low": part.ci95.low, "gain_of_answers_ci95_high": part.ci95.high}
        for task, each in gain.by.get("task", {}).items():
            found[f"gain/{task}"] = each.value
            if each.permutation_p_holm is not None:
                found[f"gain_p_holm/{task}"] = each.permutation_p_holm
    return found


def _gain_rows(gain: Gains) -> tuple[list[str], list[list[object]]]:
    columns = ["task", "n", "gain", "95 % low", "95 % high", "only before", "only after"]
    columns += ["of answers", "of format", "p (patients)", "p (patients, Holm)", "p (McNemar, questions)"]
    levels = {"all": gain, **gain.by.get("task", {})}
    return columns, [
        [
            *(task, each.n, each.value, *each.ci95, each.counts.only_before, each.counts.only_after, *_parts(each)),
            *(each.permutation_p, each.permutation_p_holm, each.mcnemar_p),
        ]
        for task, each in levels.items()
    ]


def _parts(level: PairedGain) -> tuple[float, float]:
    part = level.readability
    return (part.value or 0.0, part.format_value or 0.0) if part else (level.value, 0.0)
