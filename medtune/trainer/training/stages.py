"""Plans the stages of a training: the questions that each one learns, its number of steps, and its first step."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.benchmarks import find_benchmark
from medtune.data.catalog import nearest
from medtune.data.media.augment import group_by_allowed_changes
from medtune.data.prepared.read import Prepared, has_facets, known_facets
from medtune.data.types import MediaGroup
from medtune.eval.benchmark import Benchmark
from medtune.models.tuning.apply import PartRow
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import Recipe, Stage

_COLUMNS = {
    "part": 12, "mode": 12, "lr": 9, "parameters": 14, "trainable": 12, "share": 9, "LoRA modules": 14,
    "stored in": 11, "learns in": 11,
}  # fmt: skip
"""The columns of `part_table` and their least widths; the first two are words."""

MEASURED: Mapping[str, bool] = {
    "loss": False,
    "token_accuracy": True,
    "choice_accuracy": True,
    "f1": True,
    "ece": False,
    "brier": False,
}
"""The metrics that the Lightning module measures over all questions, and whether a higher value is better."""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage and its place in the run."""

    stage: Stage
    number: int  # The place of the stage among all stages, from 1.
    first_step: int  # The number of optimizer steps of the run before the stage begins.
    is_last: bool

    @property
    def last_step(self) -> int:
        """The number of optimizer steps of the run when the stage has ended."""
        return self.first_step + self.stage.steps


def planned_stages(recipe: Recipe) -> tuple[PlannedStage, ...]:
    """Returns the stages in their order, each with its place and its first step in the run."""
    found, first_step = [], 0
    for number, stage in enumerate(recipe.stages, 1):
        found.append(PlannedStage(stage, number, first_step, is_last=number == len(recipe.stages)))
        first_step += stage.steps
    return tuple(found)


def training_groups(recipe: Recipe, prepared: Prepared, stage: Stage, *, limit: int | None) -> tuple[MediaGroup, ...]:
    groups = groups_of(prepared, "train", questions=limit, seed=recipe.train.seed)
    chosen = [kept for group in groups if (kept := _only(group, stage.only)).questions]
    if not chosen:
        known = known_facets(question for group in groups for question in group.questions)
        raise ValueError(f"the stage {stage.name!r}: no train question has {_facets_text(stage.only)}; {known}")
    if wanted := recipe.data.augment:
        allowed_changes = find_benchmark(prepared.manifest.benchmark).allowed_changes
        chosen = [piece for group in chosen for piece in group_by_allowed_changes(group, wanted, allowed_changes)]
    most = recipe.train.group_questions
    return tuple(chosen) if most is None else tuple(piece for group in chosen for piece in _split(group, most))


def with_counted_epochs(recipe: Recipe, folders: Sequence[Prepared], *, limit: int | None) -> Recipe:
    """Returns the recipe with the length of every stage in optimizer steps instead of epochs.

    An epoch of a mixture has as many media groups as all its folders together.
    """
    if all(stage.epochs is None for stage in recipe.stages):
        return recipe
    counted = tuple(
        stage
        if stage.epochs is None
        else dataclasses.replace(
            stage,
            epochs=None,
            max_steps=_steps(
                stage, sum(len(training_groups(recipe, folder, stage, limit=limit)) for folder in folders)
            ),
        )
        for stage in recipe.stages
    )
    lengths = {"stages": counted} if recipe.train.stages else {"epochs": None, "max_steps": counted[0].max_steps}
    return dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, **lengths))


def _steps(stage: Stage, num_groups: int) -> int:
    return math.ceil((stage.epochs or 0) * num_groups / stage.batch_size)


def _only(group: MediaGroup, only: Mapping[str, Sequence[str]]) -> MediaGroup:
    kept = [question for question in group.questions if has_facets(question, only)]
    return dataclasses.replace(group, questions=tuple(kept))


def _split(group: MediaGroup, most: int) -> list[MediaGroup]:
    return [
        dataclasses.replace(group, questions=group.questions[first : first + most])
        for first in range(0, len(group.questions), most)
    ]


def _facets_text(only: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{facet} {' or '.join(values)}" for facet, values in only.items())


def higher_is_better(metric: str, benchmark: Benchmark) -> bool:
    return benchmark.metrics[metric].higher_is_better if metric in benchmark.metrics else MEASURED[metric]


def can_stop_early(stage: Stage, recipe: Recipe) -> bool:
    """Returns whether a stage has enough validations to end before its last step.

    The first validation is the best one so far, and `patience` more have to pass without an improvement. A stage whose
    length is given in epochs is taken to be long enough until its steps are counted.
    """
    settings = recipe.train.early_stopping
    if settings is None:
        return False
    return stage.max_steps is None or stage.max_steps > recipe.eval.every_steps * (settings.patience + 1)


def check_early_stopping(recipe: Recipe, benchmark: Benchmark) -> None:
    """Refuses early stopping that could never end a stage, or by a metric that validations do not have."""
    settings = recipe.train.early_stopping
    if settings is None:
        return
    known = sorted({*benchmark.metrics, *MEASURED})
    metric = settings.metric or benchmark.primary
    if metric not in known:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}.{nearest(metric, known)} There are: {', '.join(known)}"
        )
    judged = benchmark.judging is not None and not benchmark.judging.is_extra
    if judged and metric in benchmark.metrics:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}, whose answers wait for a judge while the model trains; set "
            "train.early_stopping.metric=loss"
        )
    if not any(can_stop_early(stage, recipe) for stage in recipe.stages):
        longest = max(stage.steps for stage in recipe.stages)
        raise ValueError(
            f"train.early_stopping.patience is {settings.patience}, and no stage is longer than {longest} steps, which "
            f"are validated every {recipe.eval.every_steps} steps (eval.every_steps): training could never stop "
            "early. Validate more often, or leave train.early_stopping out"
        )


def part_table(rows: Sequence[PartRow]) -> str:
    """Returns a table with one line for each part: how it learns, how much of it does, and in which number types.

    The column "stored in" is about the weights that do not learn, "learns in" about those that do.
    """
    cells = [
        (
            row.part,
            f"{row.mode}, 4 bit" if row.quantized else row.mode,
            "-" if row.lr is None else f"{row.lr:.1e}",
            f"{row.parameters:,}",
            f"{row.trainable:,}",
            f"{row.trainable / max(row.parameters + row.adapters, 1):.2%}",
            f"{row.adapted_modules or '-'}",
            row.stored or "-",
            row.learns or "-",
        )
        for row in rows
    ]
    # Two blanks stand between columns, however large a model is.
    widths = [max(least, *(len(each[i]) + 2 for each in cells)) for i, least in enumerate(_COLUMNS.values())]
    shape = "".join(f"{{:{'<' if i < 2 else '>'}{width}}}" for i, width in enumerate(widths))
    lines = [shape.format(*each) for each in (tuple(_COLUMNS), *cells)]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)
