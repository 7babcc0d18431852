"""Probes a recipe on this machine, in one process, and states what each phase of its run takes."""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import lightning.pytorch as pl

from medtune.data.types import Condition, MediaGroup
from medtune.models.contract import Model
from medtune.models.tuning.precision import resolved
from medtune.trainer.devices.release import check_freed
from medtune.trainer.experiment.asked_model import LoadedModel
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import load_model
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.experiment.prepared_data import groups_of, tested
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.hours.answering import Clock, chosen_groups, measured_answers
from medtune.trainer.hours.auditing import NO_AUDIT, Audited, measured_audit
from medtune.trainer.hours.left_as_found import nothing_left
from medtune.trainer.hours.pieces import Cost, together
from medtune.trainer.hours.rows import Row, audit_row, not_counted, phase_row, training_row, validation_row
from medtune.trainer.hours.scoring import planned_and_scored
from medtune.trainer.hours.steps import measured_stage, of_one_device
from medtune.trainer.hours.work import asking, volumes_from_files
from medtune.trainer.launch.rank import join
from medtune.trainer.launch.started import ALONE
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.stages import PlannedStage, planned_stages, with_counted_epochs
from medtune.trainer.training.starting_adapters import starting_adapters

LEAST_SIZE = 2
"""The smallest number of pieces; one says nothing about how far pieces differ."""


@dataclass(frozen=True, slots=True)
class Hours:
    """What a run takes.

    Attributes:
        recipe: The recipe whose run was counted, its lengths in steps and its precision resolved.
        rows: The phases.
        not_counted: What makes the run longer or shorter than that, in words.
    """

    recipe: Recipe
    rows: Sequence[Row]
    not_counted: Sequence[str]

    @property
    def total(self) -> Cost:
        """All phases together."""
        return together(row.cost for row in self.rows)


def probe(data: OpenedData, *, size: int, clock: Clock = time.perf_counter) -> Hours:
    """Returns what a run of a recipe takes, after a short run of parts of it whose files are deleted.

    Args:
        data: The opened data; `data.recipe` says on how many devices the run is counted. One process probes.
        size: Number of measured pieces of each phase and half the number of measured steps, at least `LEAST_SIZE`.
        clock: Returns the seconds.

    Raises:
        Stopped: A signal asked to stop.
    """
    recipe = with_counted_epochs(data.recipe, [each.prepared for each in data.training_sets], limit=None)
    with nothing_left() as folder:
        alone = replace(
            recipe.train, nodes=1, devices=1, early_stopping=None, save_every_steps=None, save_every_minutes=None
        )
        started, device = join(alone, ALONE)
        precision = resolved(recipe.train.precision, device)
        recipe = replace(recipe, train=replace(recipe.train, precision=precision))
        pl.seed_everything(recipe.train.seed, workers=True, verbose=False)
        experiment = Experiment(
            name="probe",
            recipe=replace(recipe, train=replace(alone, precision=precision)),
            prepared=data.prepared,
            benchmark=data.benchmark,
            training_sets=data.training_sets,
            folder=RunFolder(folder / "run"),
            device=device,
            started=started,
            limit=None,
            unofficial_training="",
            learnt_lookalikes="",
            trained_on="",
            volume_cache=folder / "cache",
        )
        return _Probe(experiment, recipe, folder, size, clock).hours()


class _Probe:
    """A probe under way.

    Args:
        experiment: The experiment of one process, whose recipe differs from that of the run in the number of devices.
        recipe: The recipe of the run.
        folder: The folder for all that is written.
        size: The size of the probe.
        clock: Returns the seconds.
    """

    def __init__(self, experiment: Experiment, recipe: Recipe, folder: Path, size: int, clock: Clock) -> None:
        self._experiment = experiment
        self._recipe = recipe
        self._folder = folder
        self._size = size
        self._clock = clock
        self._devices = recipe.train.world_size
        self._tested = tested(recipe, experiment.prepared, limit=None)

    def hours(self) -> Hours:
        recipe, rows = self._recipe, list[Row]()
        rows.append(self._phase("zero-shot", ("image",), recipe.model.checkpoint).row)
        start, first_weights = self._start()
        rows += first_weights
        for planned in planned_stages(recipe):
            rows += self._stage(planned, start)
            start = RunFolder(self._stage_folder(planned)).best
        final = self._phase("final", recipe.eval.conditions, start, again=True, audits=True)
        rows.append(final.row)
        if final.audit.num_read:
            rows.append(audit_row(final.audit))
        return Hours(recipe, rows, not_counted(recipe))

    def _start(self) -> tuple[Path | None, list[Row]]:
        if (given := self._recipe.model.checkpoint) is not None:
            return given, []
        begun = self._clock()
        made = starting_adapters(self._experiment)
        cost = Cost(self._clock() - begun)
        return made, [] if made is None else [Row("first weights", cost, {}, "all of it, as a run makes them")]

    def _phase(
        self,
        name: str,
        conditions: Sequence[Condition],
        checkpoint: Path | None,
        *,
        again: bool = False,
        audits: bool = False,
    ) -> _Phase:
        recipe, experiment, clock = self._recipe, self._experiment, self._clock
        plan = functools.partial(
            asking,
            experiment,
            self._tested,
            conditions,
            world_size=self._devices,
            repeats=recipe.eval.draws(conditions),
        )
        asked = plan()
        begun = clock()
        model = load_model(experiment, checkpoint)
        loading_s = clock() - begun
        assert isinstance(model, LoadedModel)
        chosen = chosen_groups(asked, in_piece=recipe.eval.batch_size, pieces=self._size, seed=recipe.train.seed)
        answered = measured_answers(model, asked, chosen, clock=clock, again=again)
        audit = measured_audit(model, self._tested, pieces=self._size, clock=clock) if audits else NO_AUDIT
        freed = weakref.ref(model.assembled.model)
        del model
        freeing_s = self._freed(freed, f"the phase {name}")
        scoring_s = planned_and_scored(experiment, plan, self._folder / name, clock=clock)
        # A run ends with the model of its last phase.
        held_s = loading_s if audits else loading_s + freeing_s
        row = phase_row(name, asked, answered, chosen, loading_s=held_s, scoring_s=scoring_s, devices=self._devices)
        return _Phase(row, audit)

    def _stage(self, planned: PlannedStage, start: Path | None) -> list[Row]:
        recipe, experiment = self._recipe, self._experiment
        val = groups_of(experiment.prepared, "val", questions=recipe.eval.val_questions, seed=recipe.train.seed)
        part = _part(val, self._size * recipe.eval.batch_size, recipe)
        probed = replace(experiment.recipe, eval=replace(recipe.eval, val_questions=part))
        one = of_one_device(planned.stage, world_size=self._devices)
        times, model = measured_stage(
            replace(experiment, recipe=probed, folder=RunFolder(self._stage_folder(planned))),
            replace(planned, stage=one),
            start,
            steps=self._size,
            clock=self._clock,
        )
        mixture = stage_mixture(recipe, planned.stage, experiment.training_sets, limit=None)
        batches = stage_batches(mixture, planned.stage, model.assembled, rank=0, world_size=self._devices)
        from_files = volumes_from_files(batches, range(planned.stage.steps)) / self._devices
        learnt = weakref.ref(model.assembled.model)
        del model, batches
        freeing_s = self._freed(learnt, f"the stage {planned.stage.name}")
        plan = functools.partial(asking, experiment, val, ("image",), world_size=self._devices)
        scoring_s = planned_and_scored(
            experiment, plan, self._folder / f"validation_{planned.number}", clock=self._clock
        )
        return [
            training_row(recipe, planned, times, from_files=from_files, freeing_s=freeing_s),
            validation_row(recipe, planned, times, plan(), scoring_s=scoring_s),
        ]

    def _freed(self, model: weakref.ReferenceType[Model], where: str) -> float:
        begun = self._clock()
        check_freed(model, what=f"the model of the probe of {where}")
        return self._clock() - begun

    def _stage_folder(self, planned: PlannedStage) -> Path:
        return self._folder / f"stage_{planned.number}"


class _Phase(NamedTuple):
    row: Row
    audit: Audited


def _part(groups: Sequence[MediaGroup], wanted: int, recipe: Recipe) -> int:
    if len(groups) <= wanted:
        return recipe.eval.val_questions
    return math.ceil(wanted * sum(len(group.questions) for group in groups) / len(groups))
