"""Saves a state of the training after validations, at intervals and on request, and continues at a saved one."""

import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from medtune.trainer.devices.ranks import highest
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.schema import TrainBlock
from medtune.trainer.training.callbacks.checkpoints import NEVER
from medtune.trainer.training.callbacks.step_log import StopRequest, ValidationStoppedError, step_done
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.states.folder import SavedFacts, load_state, save_state


class Continued(Callback):
    """Continues the training at a saved state, before its first step.

    Args:
        state: The folder of the state.
        facts: Facts about the run; only its first step is read.
    """

    def __init__(self, state: Path, facts: SavedFacts) -> None:
        self._state = state
        self._facts = facts

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reads the state; the strategy has its optimizer by now, and the loops have not begun."""
        assert isinstance(pl_module, FineTuning)
        load_state(trainer, pl_module, self._state, self._facts)


class SavedState(Callback):
    """Saves a state to resume from: after every validation, at the recipe's intervals, and when a stop was asked for.

    A state that was saved in the middle of a validation is continued with this validation. The callback has to be the
    last one, because it saves the states of the others.

    Args:
        folder: The run folder.
        facts: Facts about the run that the state records.
        train: The recipe's block with the intervals.
        stop: Says whether a stop was asked for.
    """

    def __init__(self, folder: RunFolder, facts: SavedFacts, train: TrainBlock, stop: StopRequest) -> None:
        self._folder = folder
        self._facts = facts
        self._every_steps = train.save_every_steps
        self._every_minutes = train.save_every_minutes
        self._stop = stop
        self._saved_s = time.monotonic()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Does the validation that was stopped; the other callbacks have continued at the saved state."""
        if self._folder.validation_due() and self._folder.saved_step() == self._facts.first_step + trainer.global_step:
            # This is what Lightning's training loop does after a step.
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Saves a state if a validation was stopped."""
        if isinstance(exception, ValidationStoppedError):
            self._save(trainer, pl_module, validation_due=True)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins to count the minutes."""
        self._saved_s = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Saves a state if a stop was asked for or an interval has passed, and no validation follows."""
        if not step_done(trainer, batch_idx) or trainer.val_check_batch != NEVER:
            return
        if self._stop.asked:
            # Lightning would validate once more before it stops.
            trainer.limit_val_batches = 0
            self._save(trainer, pl_module)
        elif self._is_due(trainer):
            self._save(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer, pl_module)

    def _is_due(self, trainer: pl.Trainer) -> bool:
        step = self._facts.first_step + trainer.global_step
        if is_saved(step, every_steps=self._every_steps):
            return True
        if self._every_minutes is None:
            return False
        # The clocks of the ranks differ; that of rank 0 counts.
        passed = time.monotonic() - self._saved_s >= 60 * self._every_minutes
        return bool(highest(int(passed and trainer.is_global_zero)))

    def _save(self, trainer: pl.Trainer, module: pl.LightningModule, *, validation_due: bool = False) -> None:
        assert isinstance(module, FineTuning)
        save_state(trainer, module, self._folder, self._facts, validation_due=validation_due)
        self._saved_s = time.monotonic()


def is_saved(step: int, *, every_steps: int | None) -> bool:
    """Returns whether a state is saved after a step of the run, whether or not a validation saves one there.

    Args:
        step: The step, counted from 1 over all stages.
        every_steps: Optimizer steps between two saved states; None saves none by their number.
    """
    return every_steps is not None and step % every_steps == 0
