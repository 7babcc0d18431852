"""Measures some steps of a training stage and two of its validations, with the loop that trains in a run."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item, unchanged
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import TrainableModel, load_trainable
from medtune.trainer.hours.answering import Clock
from medtune.trainer.hours.work import Cost, Pieces, has_cache, together, volumes_from_files
from medtune.trainer.launch.stop import Stopped, asked_to_stop
from medtune.trainer.recipe.schema import Recipe, Stage
from medtune.trainer.training.batches import MicroBatches, stage_batches
from medtune.trainer.training.fit import fit
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.step_callbacks import step_done
from medtune.trainer.training.validation.asked import VisitBatch

_WARM_UP_STEPS = 2
_AHEAD_OF_EACH_WORKER = 2
"""The number of micro-batches that each loading process makes ahead. Source: torch.utils.data.DataLoader."""


@dataclass
class Validated:
    answering: list[float] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    before: float = 0.0
    scoring: float = 0.0  # From the last batch until the scores are written.
    saving: float = 0.0  # From there until the weights and a state are written.


class StepTimes(Callback):
    """Notes when steps and validations end, and ends the training after the second validation.

    It has to be called after all other callbacks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark = self._begun = clock()
        self._batch = 0.0
        self.begin_s = 0.0
        self.steps: list[float] = []
        self.validations: list[Validated] = []

    def _passed(self) -> float:
        now = self._clock()
        passed, self._mark = now - self._mark, now
        return passed

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.begin_s = self._passed()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if step_done(trainer, batch_idx):
            self.steps.append(self._passed())

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins a validation; what came before it since the last step belongs to it."""
        self.validations.append(Validated())

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        passed = self._passed()
        if batch_idx == 0:
            self.validations[-1].before = passed

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: VisitBatch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.validations[-1].answering.append(self._passed())
        self.validations[-1].groups.append(len(batch.visits))

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notes that the answers are scored."""
        self.validations[-1].scoring = self._passed()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notes that the weights and the state are saved; the second validation is the last."""
        self.validations[-1].saving = self._passed()
        if len(self.validations) == 2:
            trainer.should_stop = True


@dataclass(frozen=True, slots=True)
class StageTimes:
    loading_s: float  # Seconds until the first step.
    first: Pieces
    again: Pieces  # Steps whose volumes a cache holds; steps like the first where there is no cache.
    from_files: tuple[int, int]  # The number of volumes that the two read from the files.
    validations: tuple[Validated, Validated]  # The first validation and the second.

    @property
    def measured(self) -> Pieces:
        return Pieces((*self.first.seconds, *self.again.seconds), (*self.first.units, *self.again.units))

    def all(self, steps: int, *, from_files: float) -> Cost:
        """Returns the cost of all steps of a stage, where this device reads `from_files` volumes from files."""
        more = self.from_files[0] - self.from_files[1] * len(self.first.seconds) / len(self.again.seconds)
        if more <= 0:
            return self.measured.unit.times(steps)
        # What a step takes is a constant, and something for each volume that is not in the cache.
        apart = together([self.first.unit, self.again.unit.times(-1)]).times(len(self.first.seconds) / more)
        each = Cost(max(apart.seconds, 0.0), abs(apart.half_s))
        usual = from_files - steps * self.from_files[1] / len(self.again.seconds)
        return together([self.again.unit.times(steps), each.times(max(usual, 0.0))])


def measured_stage(
    experiment: Experiment, planned: PlannedStage, start: Path | None, *, steps: int, clock: Clock
) -> tuple[StageTimes, TrainableModel]:
    """Returns what the steps of a stage take, and the model after them.

    The stage takes its first steps, then a validation, as many steps again, whose volumes were put into the cache
    before, and the same validation again.

    Args:
        steps: Number of steps that are measured before and after the first validation.
    """
    begun = clock()
    half = warm_up_steps(experiment.recipe, planned.stage) + steps
    stage = replace(planned.stage, epochs=None, max_steps=max(planned.stage.steps, 2 * half + 1))
    recipe = replace(experiment.recipe, eval=replace(experiment.recipe.eval, every_steps=half))
    probed = replace(experiment, recipe=recipe)
    probed.folder.checkpoints.mkdir(parents=True)
    model = load_trainable(probed, stage, start)
    loading_s = clock() - begun
    batches = probed_batches(probed, stage, model.assembled)
    if has_cache(model.assembled.transform):
        _fill_cache_of_steps(batches, range(half, 2 * half))
    times = StepTimes(clock)
    finished = fit(probed, PlannedStage(stage, planned.number, 0, is_last=True), model, (), watching=[times])
    if not finished:
        raise Stopped(asked_to_stop())
    counted = (range(half - steps, half), range(2 * half - steps, 2 * half))
    first, again = (Pieces(tuple(times.steps[each.start : each.stop]), (1,) * steps) for each in counted)
    from_files = volumes_from_files(batches, counted[0]), volumes_changed(batches, counted[1])
    before, after = times.validations
    return StageTimes(loading_s + times.begin_s, first, again, from_files, (before, after)), model


def warm_up_steps(recipe: Recipe, stage: Stage) -> int:
    """Returns the number of steps that are not counted: the first ones, and those whose batches were made ahead."""
    # By tokens, a step has at least one pass.
    passes = 1 if stage.micro_batch_tokens is not None else math.ceil(stage.batch_size / stage.micro_batch_size)
    return max(_WARM_UP_STEPS, math.ceil(_AHEAD_OF_EACH_WORKER * recipe.data.workers / passes))


def of_one_device(stage: Stage, *, world_size: int) -> Stage:
    """Returns the stage with the groups of one device: as many forward passes of as many groups as the run gives it.

    By tokens, it is an even share of the groups, rounded up.
    """
    if stage.micro_batch_tokens is not None:
        return replace(stage, batch_size=math.ceil(stage.batch_size / world_size))
    accumulate = math.ceil(stage.batch_size / (stage.micro_batch_size * world_size))
    return replace(stage, batch_size=min(stage.batch_size, accumulate * stage.micro_batch_size))


def probed_batches(experiment: Experiment, stage: Stage, assembled: Assembled) -> MicroBatches:
    mixture = stage_mixture(experiment.recipe, stage, experiment.training_sets, limit=None)
    return stage_batches(mixture, stage, assembled, world_size=1)


def volumes_changed(batches: MicroBatches, steps: range) -> int:
    """Returns how many volumes these steps read from their files although a cache is full: those that are changed."""
    if not has_cache(batches.transform):
        return 0
    drawn = [draw for step in steps for draw in batches.order.step_groups(step) if not batches.sequences.is_blind(draw)]
    groups = [(draw, batches.mixture.group(draw)) for draw in drawn]
    return sum(len(group.media) for draw, group in groups if batches.mixture.change(draw, group) is not unchanged)


def _fill_cache_of_steps(batches: MicroBatches, steps: range) -> None:
    for step in steps:
        for draw in batches.order.step_groups(step):
            group = batches.mixture.group(draw)
            if not batches.sequences.is_blind(draw) and batches.mixture.change(draw, group) is unchanged:
                for ref in group.media:
                    read_item(ref, batches.transform)
