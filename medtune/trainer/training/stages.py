"""Plans the stages of a training: the questions that each one learns, its number of steps, and its first step."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medtune.benchmarks import find_benchmark
from medtune.data.media.augment import group_by_allowed_changes
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import Recipe, Stage


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage and its place in the run.

    Attributes:
        stage: The stage as the recipe describes it.
        number: The place of the stage among all stages, from 1.
        first_step: The number of optimizer steps of the run before the stage begins.
        is_last: Whether it is the last stage of the run.
    """

    stage: Stage
    number: int
    first_step: int
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
    """Returns the media groups of a prepared folder that a stage learns from."""
    groups = groups_of(prepared, "train", questions=limit, seed=recipe.train.seed)
    chosen = [kept for group in groups if (kept := _only(group, stage.only)).questions]
    if not chosen:
        raise ValueError(f"the stage {stage.name!r}: no train question has {_wanted(stage.only)}; {_known(groups)}")
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
    kept = [q for q in group.questions if all(q.facets.get(facet) in values for facet, values in only.items())]
    return dataclasses.replace(group, questions=tuple(kept))


def _split(group: MediaGroup, most: int) -> list[MediaGroup]:
    return [
        dataclasses.replace(group, questions=group.questions[first : first + most])
        for first in range(0, len(group.questions), most)
    ]


def _wanted(only: Mapping[str, Sequence[str]]) -> str:
    return " and ".join(f"{facet} {' or '.join(values)}" for facet, values in only.items())


def _known(groups: Sequence[MediaGroup]) -> str:
    facets: dict[str, set[str]] = {}
    for question in (question for group in groups for question in group.questions):
        for facet, value in question.facets.items():
            facets.setdefault(facet, set()).add(value)
    return "there are " + "; ".join(f"{facet}: {', '.join(sorted(values)[:8])}" for facet, values in facets.items())
