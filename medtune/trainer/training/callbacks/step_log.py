"""Logs the steps of a stage, and stops the training on all ranks when a signal has asked any of them to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from medtune.trainer.devices.ranks import state_timeout
from medtune.trainer.launch.stop_together import stopping_signal
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage


def step_done(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Returns whether the forward pass that just ended finished an optimizer step."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


def log_metrics(loggers: Sequence[Logger], metrics: dict[str, float], *, step: int) -> None:
    """Passes metrics to every logger at a step of the run, and lets the loggers write them to disk."""
    for logger in loggers:
        logger.log_metrics(metrics, step=step)
        logger.save()


@dataclass
class StopRequest:
    """Says whether the ranks have agreed to stop after the current step, because a signal asked any of them to.

    Attributes:
        asked: Whether they have agreed to stop; it is the same on all ranks.
    """

    asked: bool = False


class ValidationStoppedError(Exception):
    """Says that all ranks leave a validation at the same batch, because a signal asked any of them to stop."""


class StepLog(Callback):
    """Logs the loss of each step, and stops the training when a signal has asked any rank to.

    It stops after a step, or before a batch of a validation, which is then done anew when the run goes on.

    Args:
        planned: The stage that is trained.
        loggers: The loggers of the run, which count the steps of all stages.
        every_steps: Optimizer steps between two logged points.
        stop: Shared with `SavedState`, which saves a state when a stop is asked for.
        timeout_minutes: Time after which a rank that waits for the others in a step ends with an error.
    """

    def __init__(
        self,
        planned: PlannedStage,
        loggers: Sequence[Logger],
        *,
        every_steps: int,
        stop: StopRequest,
        timeout_minutes: float,
    ) -> None:
        self._planned = planned
        self._loggers = loggers
        self._every_steps = every_steps
        self._stop = stop
        self._timeout_minutes = timeout_minutes

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Gives the process groups that the strategy made for itself the timeout that the recipe states."""
        state_timeout(self._timeout_minutes)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Logs the loss of a step, and lets all ranks stop if any of them was asked to."""
        assert isinstance(pl_module, FineTuning)
        if not step_done(trainer, batch_idx):
            return
        loss = pl_module.step_loss()
        if trainer.global_step % self._every_steps == 0 or trainer.global_step == trainer.max_steps:
            rates = {f"train/lr_{g['name']}": g["lr"] for g in trainer.optimizers[0].param_groups if "name" in g}
            norm = pl_module.take_gradient_norm()
            metrics = {
                "train/stage": float(self._planned.number),
                "train/loss": loss,
                "train/gradient_norm": norm,
                **rates,
            }
            if pl_module.device.type == "cuda":
                metrics["train/peak_memory_gb"] = torch.cuda.max_memory_allocated(pl_module.device) / 1e9
            log_metrics(self._loggers, metrics, step=self._planned.first_step + trainer.global_step)
        self._stop_together(trainer)

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Leaves the validation on all ranks, which run equally many batches, if any of them was asked to stop.

        Raises:
            ValidationStoppedError: A rank was asked to stop.
        """
        if stopping_signal():
            self._stop.asked = True
            raise ValidationStoppedError

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._stop_together(trainer)

    def _stop_together(self, trainer: pl.Trainer) -> None:
        if stopping_signal():
            self._stop.asked = True
            trainer.should_stop = True
