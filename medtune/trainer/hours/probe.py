"""Probes a recipe on this machine, in one process, and states what each phase of its run takes."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import lightning.fabric.utilities.rank_zero as lightning_ranks
import lightning.pytorch as pl
import torch

from medtune.data.types import Condition, MediaGroup, Prediction, Question
from medtune.eval.asking.plan import prediction_key
from medtune.eval.data_label import label_of
from medtune.eval.predictions.files import PredictionWriter, merge_shards, shard_path, stored_predictions
from medtune.models.contract import Model
from medtune.models.tuning.quantize import resolved
from medtune.trainer.devices.ranks import left_as_found
from medtune.trainer.devices.strategies import check_freed
from medtune.trainer.experiment.evaluate import LoadedModel, score_answers
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.first_weights import first_weights
from medtune.trainer.experiment.load_model import load_model
from medtune.trainer.experiment.open_data import OpenedData
from medtune.trainer.experiment.prepared_data import groups_of, tested
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.hours.answering import NO_AUDIT, Audited, Clock, chosen_groups, measured_answers, measured_audit
from medtune.trainer.hours.rows import Row, audit_row, not_counted, phase_row, training_row, validation_row
from medtune.trainer.hours.steps import measured_stage, of_one_device
from medtune.trainer.hours.work import Asking, Cost, asking, asking_of, together, volumes_from_files
from medtune.trainer.launch.rank import join
from medtune.trainer.launch.started import ALONE
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.batches import stage_batches
from medtune.trainer.training.mixture import stage_mixture
from medtune.trainer.training.stages import PlannedStage, planned_stages, with_counted_epochs


@contextlib.contextmanager
def nothing_left() -> Iterator[Path]:
    """Gives a folder that is deleted when the block ends, also by an error or a signal.

    Afterwards the environment, the process group and torch's settings are as they were before.
    """
    before = dict(os.environ)
    guessing: Any = lightning_ranks.rank_zero_only
    rank = getattr(guessing, "rank", None)
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    cached = torch.is_autocast_cache_enabled()
    try:
        with left_as_found(), tempfile.TemporaryDirectory(prefix="medtune-probe-") as folder:
            yield Path(folder)
    finally:
        torch.set_autocast_cache_enabled(cached)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
        guessing.rank = rank
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


MOST_SCORED = 20_000
"""The number of answers above which a part is scored, and the time scaled by the number of answers."""


def planned_and_scored(experiment: Experiment, plan: Callable[[], Asking], out_dir: Path, *, clock: Clock) -> float:
    """Returns the seconds in which a phase is planned, and in which right answers to it are written and scored.

    The answers stand for those of a model, which take as long to score.
    """
    begun = clock()
    asking = plan()
    planning_s = clock() - begun
    ends = list(accumulate(sum(len(visit.requests) for visit in visits) for visits in asking.plan))
    number = next((place for place, end in enumerate(ends, 1) if end >= MOST_SCORED), len(ends))
    part = asking_of(asking.plan[:number], world_size=1)
    return planning_s + scored(experiment, part, out_dir, clock=clock) * ends[-1] / ends[number - 1]


def scored(experiment: Experiment, asking: Asking, out_dir: Path, *, clock: Clock) -> float:
    """Returns the seconds in which right answers to everything that is asked are written and scored."""
    out_dir.mkdir(parents=True)
    answers, questions = stand_ins(asking), _questions(asking)
    begun = clock()
    with PredictionWriter(shard_path(out_dir, 0)) as writer:
        for answer in answers:
            writer.write(answer)
    merge_shards(out_dir, [answer.key for answer in answers])
    score_answers(experiment, questions, list(stored_predictions(out_dir).values()), out_dir=out_dir)
    return clock() - begun


def _questions(asking: Asking) -> list[Question]:
    # Under "permuted_options" the options stand in another order; the questions are those of the condition "image".
    asked = [request for request in asking.requests if request.condition == "image"]
    return list({request.question.id: request.question for request in asked}.values())


def stand_ins(asking: Asking) -> list[Prediction]:
    """Returns right answers to all requests of an evaluation."""
    return [
        Prediction(
            key=prediction_key(request),
            options_shown=request.question.options,
            text=request.prompt.target if request.reading == "generation" else None,
            option_logprobs=_logprobs(request.prompt.choices, request.prompt.target)
            if request.reading == "likelihood"
            else None,
            option_tokens=(1,) * len(request.prompt.choices) if request.reading == "likelihood" else None,
        )
        for request in asking.requests
    ]


def _logprobs(choices: Sequence[str], target: str) -> tuple[float, ...]:
    return tuple(-0.1 if choice == target else -9.0 for choice in choices)


LEAST_SIZE = 2
"""The smallest number of pieces; one says nothing about how far pieces differ."""


@dataclass(frozen=True, slots=True)
class Hours:
    """What a run takes."""

    recipe: Recipe  # The recipe whose run was counted, its lengths in steps and its precision resolved.
    rows: Sequence[Row]
    not_counted: Sequence[str]  # What makes the run longer or shorter than that, in words.

    @property
    def total(self) -> Cost:
        """All phases together."""
        return together(row.cost for row in self.rows)


def probe(data: OpenedData, *, size: int, clock: Clock = time.perf_counter) -> Hours:
    """Returns what a run of a recipe takes, after a short run of parts of it whose files are deleted.

    Args:
        size: Number of measured pieces of each phase and half the number of measured steps, at least `LEAST_SIZE`.
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
            label=label_of(data.prepared.manifest, prompts=data.benchmark.wording),
            training_sets=data.training_sets,
            folder=RunFolder(folder / "run"),
            device=device,
            started=started,
            volume_cache=folder / "cache",
        )
        return _Probe(experiment, recipe, folder, size, clock).hours()


class _Probe:
    """A probe under way.

    Args:
        experiment: The experiment of one process, whose recipe differs from that of the run in the number of devices.
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
        rows.append(self._phase("zero-shot", recipe.eval.asked_at("zero_shot"), recipe.model.checkpoint).row)
        start, first_weights = self._start()
        rows += first_weights
        for planned in planned_stages(recipe):
            rows += self._stage(planned, start)
            start = RunFolder(self._stage_folder(planned)).best
        final = self._phase("final", recipe.eval.asked_at("final"), start, again=True, audits=True)
        rows.append(final.row)
        if final.audit.num_read:
            rows.append(audit_row(final.audit))
        return Hours(recipe, rows, not_counted(recipe))

    def _start(self) -> tuple[Path | None, list[Row]]:
        if (given := self._recipe.model.checkpoint) is not None:
            return given, []
        begun = self._clock()
        made = first_weights(self._experiment)
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
        audit = measured_audit(experiment, model, self._tested, pieces=self._size, clock=clock) if audits else NO_AUDIT
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
        batches = stage_batches(mixture, planned.stage, model.assembled, world_size=self._devices)
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
