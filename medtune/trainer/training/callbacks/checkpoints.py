"""Starts the validations of a stage, keeps its best and last weights, and saves a state to resume from."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from medtune.models.tuning.starting_weights import Starts
from medtune.models.weights.adapters.write import Base, write_adapter
from medtune.models.weights.checkpoint import write_trained
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.devices.strategies import copied
from medtune.trainer.experiment.run_folder import STATE_PREFIX, RunFolder
from medtune.trainer.training.callbacks.early_stopping import EarlyStop
from medtune.trainer.training.callbacks.step_log import StopRequest, step_done
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage

_NEVER = 2**62


class ValidationSteps(Callback):
    """Lets Lightning validate after every so many optimizer steps of a stage, and after its last one.

    Lightning itself counts forward passes, also those before a resumed state, and leaves out the last step.

    Args:
        every_steps: Optimizer steps between two validations.
    """

    def __init__(self, *, every_steps: int) -> None:
        self._every_steps = every_steps

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Says whether a validation is due, which Lightning asks after this."""
        is_due = step_done(trainer, batch_idx) and (
            trainer.global_step % self._every_steps == 0 or trainer.global_step == trainer.max_steps
        )
        trainer.val_check_batch = 1 if is_due else _NEVER


class Checkpoints(Callback):
    """Writes the best weights and the last weights of a stage after its validations.

    The best weights are those with the best primary metric in the last stage of the run. An earlier stage only passes
    its last weights on to the next stage.

    Args:
        folder: The run folder.
        planned: The stage that is trained. File names and the log count the steps of the whole run.
        learnt: Names of the parameters that a checkpoint holds.
        score: Returns the primary metric of the validation that just ended.
        higher_is_better: Whether the best weights are those with the highest metric; otherwise the lowest.
        early: Says whether the stage ends before its last step; None if it cannot.
        about: Facts about the run that are written into every checkpoint.
        starts: The beginnings of PiSSA adapters, which are written into every checkpoint too.
        base: The model that the adapter in PEFT's format belongs to, which is written beside the best weights.
    """

    def __init__(
        self,
        folder: RunFolder,
        planned: PlannedStage,
        learnt: Collection[str],
        *,
        score: Callable[[], float],
        higher_is_better: bool,
        early: EarlyStop | None,
        about: dict[str, str],
        starts: Starts,
        base: Base,
    ) -> None:
        self._folder = folder
        self._planned = planned
        self._learnt = learnt
        self._score = score
        self._sign = 1.0 if higher_is_better else -1.0
        self._early = early
        self._about = about
        self._starts = starts
        self._base = base
        self._best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the best metric so far, which a resumed run needs."""
        return {"best": self._best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the best metric so far from a saved state."""
        self._best = state_dict["best"]

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Writes the weights that were validated, if they are the best or the last ones."""
        assert isinstance(pl_module, FineTuning)
        step, value = self._planned.first_step + trainer.global_step, self._score()
        if self._planned.is_last and is_best(value, self._best, sign=self._sign):
            self._best = value
            self._write(trainer, pl_module, self._folder.best, step, value)
        stops = self._early is not None and bool(self._early.why)
        if stops or step == self._planned.last_step:
            handed_on = self._folder.stage_weights(self._planned.number)
            self._write(trainer, pl_module, self._folder.last if self._planned.is_last else handed_on, step, value)
        if self._early is not None and stops and trainer.is_global_zero:
            self._folder.note_early_stop(self._planned.number, self._early.sentence(trainer))

    def _write(self, trainer: pl.Trainer, module: FineTuning, path: Path, step: int, value: float) -> None:
        tensors = copied(module.model, self._learnt)
        if trainer.is_global_zero:
            about = {**self._about, "step": str(step), "validation": repr(value)}
            write_trained(path, tensors, about=about, starts=self._starts)
            if path == self._folder.best:
                write_adapter(self._folder.adapter, module.model, tensors, self._base, about=about, starts=self._starts)
        barrier()


class SavedState(Callback):
    """Saves a state to resume from after every validation, and when a stop was asked for.

    It has to be the last of the callbacks, because it saves the states of the others.

    Args:
        folder: The run folder.
        planned: The stage that is trained.
        stop: Says whether a stop was asked for.
    """

    def __init__(self, folder: RunFolder, planned: PlannedStage, stop: StopRequest) -> None:
        self._folder = folder
        self._planned = planned
        self._stop = stop

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Saves a state if a stop was asked for and no validation follows."""
        if step_done(trainer, batch_idx) and self._stop.asked and trainer.val_check_batch == _NEVER:
            # Lightning would validate once more before it stops.
            trainer.limit_val_batches = 0
            self._save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Saves a state after a validation."""
        self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        """Saves a state under a temporary name and renames it, so that a killed run never leaves a partial state."""
        unfinished = self._folder.checkpoints / "state.unfinished"
        trainer.save_checkpoint(unfinished, weights_only=False)
        barrier()
        if trainer.is_global_zero:
            earlier = self._folder.saved_state()
            target = self._folder.checkpoints / f"{STATE_PREFIX}{self._planned.first_step + trainer.global_step:06d}"
            if earlier == target:
                _remove(target)
            unfinished.rename(target)
            if earlier is not None and earlier != target:
                _remove(earlier)
        barrier()


def is_best(value: float, best: float | None, *, sign: float) -> bool:
    """Returns whether the weights of a validation replace the best ones so far; with equal metrics they do.

    A value is NaN if all answers wait for a judge. Weights with such a value replace only weights whose value is NaN
    too.

    Args:
        value: The primary metric of the validation.
        best: The metric of the best weights so far; None if there are none.
        sign: 1 if a higher metric is better, else -1.
    """
    return best is None or math.isnan(best) or sign * value >= sign * best


def _remove(state: Path) -> None:
    if state.is_dir():
        shutil.rmtree(state)
    else:
        state.unlink()
