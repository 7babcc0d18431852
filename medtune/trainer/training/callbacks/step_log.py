"""Logs the steps of a stage, and stops the training when Ctrl-C or SIGTERM asks for it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from medtune.trainer.devices.ranks import summed
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
    """Says whether Ctrl-C or SIGTERM asked to stop; all ranks then stop together after the current step.

    Attributes:
        asked: Whether a stop was asked for.
    """

    asked: bool = False


class StepLog(Callback):
    """Logs the loss of each step, and stops the training after a step when Ctrl-C or SIGTERM asks for it.

    Args:
        planned: The stage that is trained.
        loggers: The loggers of the run, which count the steps of all stages.
        every_steps: Optimizer steps between two logged points.
        stop: Shared with `SavedState`, which saves a state when a stop is asked for.
    """

    def __init__(
        self, planned: PlannedStage, loggers: Sequence[Logger], *, every_steps: int, stop: StopRequest
    ) -> None:
        self._planned = planned
        self._loggers = loggers
        self._every_steps = every_steps
        self._stop = stop
        self._handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Installs handlers for Ctrl-C and SIGTERM; a second signal ends the process at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self._stop.asked:
                raise KeyboardInterrupt
            self._stop.asked = True
            print("\nstopping after this step; a second Ctrl-C stops at once", file=sys.stderr, flush=True)

        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, ask)

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
        self._stop_together(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lets all ranks stop after a validation during which any of them was asked to."""
        self._stop_together(trainer, pl_module)

    def _stop_together(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if summed([float(self._stop.asked)], module.device)[0]:
            self._stop.asked = True
            trainer.should_stop = True

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Restores the earlier handlers of Ctrl-C and SIGTERM."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
