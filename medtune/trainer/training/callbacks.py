"""Lightning callbacks that check gradients, log the loss, evaluate, save checkpoints and stop on request."""

from __future__ import annotations

import math
import shutil
import signal
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, TQDMProgressBar

from medtune.models.tuning.apply import GradientAudit
from medtune.models.tuning.plan import Tuning
from medtune.models.tuning.starting_weights import Starts
from medtune.models.weights.adapters.write import Base, write_adapter
from medtune.models.weights.checkpoint import write_trained
from medtune.trainer.devices.ranks import barrier, summed
from medtune.trainer.devices.strategies import copied
from medtune.trainer.experiment.run_folder import STATE_PREFIX, RunFolder
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.stages import PlannedStage


def step_done(trainer: pl.Trainer, batch_idx: int) -> bool:
    """Returns whether the forward pass that just ended finished an optimizer step."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


class GradientCheck(Callback):
    """Stops the run after its first step if a trainable part got no gradient, or a frozen part got one.

    In a step without media, the vision tower and the projector get no gradient. The check is therefore made at the
    first step with media, or at the first step if the stage never shows media.

    Args:
        tuning: How each part of the model is trained.
        shows_media: Whether any step of the stage shows media.
    """

    def __init__(self, tuning: Tuning, *, shows_media: bool) -> None:
        self._tuning = tuning
        self._shows_media = shows_media
        self._shown = 0
        self._audit: GradientAudit | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Starts to watch the gradients."""
        assert isinstance(pl_module, FineTuning)
        self._audit = GradientAudit(pl_module.model, self._tuning)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Checks the gradients at the end of the first step with media."""
        if self._audit is None:
            return
        self._shown += batch.num_shown
        if step_done(trainer, batch_idx):
            here = self._audit.reached()
            shown, *anywhere = summed([float(self._shown), *(float(seen) for seen in here.values())], pl_module.device)
            if shown or not self._shows_media:
                audit, self._audit = self._audit, None
                audit.judge({name: count > 0 for name, count in zip(here, anywhere, strict=True)})


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
        every_steps: Optimizer steps between two logged points.
        stop: Shared with `Checkpoints`, which saves a state when a stop is asked for.
    """

    def __init__(self, planned: PlannedStage, *, every_steps: int, stop: StopRequest) -> None:
        self._planned = planned
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
        """Sums the loss over the ranks, logs it, and lets all ranks stop if any of them was asked to."""
        assert isinstance(pl_module, FineTuning)
        if not step_done(trainer, batch_idx):
            return
        loss, stop = summed([pl_module.take_step_loss(), float(self._stop.asked)], pl_module.device)
        pl_module.log("train/loss", loss, prog_bar=True, rank_zero_only=True, logger=False)
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
            log_metrics(trainer, metrics, step=self._planned.first_step + trainer.global_step)
        if stop:
            self._stop.asked = True
            trainer.should_stop = True

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Restores the earlier handlers of Ctrl-C and SIGTERM."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()


class Checkpoints(Callback):
    """Evaluates every N steps, and saves the best weights, the last weights and a state to resume from.

    The best weights are those with the best primary metric in the last stage of the run. An earlier stage only passes
    its last weights on to the next stage.

    Args:
        folder: The run folder.
        planned: The stage that is trained. File names and the log count the steps of the whole run.
        learnt: Names of the parameters that a checkpoint holds.
        every_steps: Optimizer steps between two evaluations.
        evaluate: Takes the step and returns the value of the primary metric and all values to log. It is called on
            every rank.
        higher_is_better: Whether the best weights are those with the highest metric; otherwise the lowest.
        stop: Says whether a stop was asked for; a state is then saved after the current step.
        about: Facts about the run that are written into every checkpoint.
        starts: The beginnings of PiSSA adapters, which are written into every checkpoint too.
        answering: Gives the model the weights that are evaluated and written, while its context lasts.
        base: The model that the adapter in PEFT's format belongs to, which is written beside the best weights.
    """

    def __init__(
        self,
        folder: RunFolder,
        planned: PlannedStage,
        learnt: Collection[str],
        *,
        every_steps: int,
        evaluate: Callable[[int], tuple[float, dict[str, float]]],
        higher_is_better: bool,
        stop: StopRequest,
        about: dict[str, str],
        starts: Starts,
        answering: Callable[[], AbstractContextManager[None]],
        base: Base,
    ) -> None:
        self._folder = folder
        self._planned = planned
        self._learnt = learnt
        self._every_steps = every_steps
        self._evaluate = evaluate
        self._sign = 1.0 if higher_is_better else -1.0
        self._stop = stop
        self._about = about
        self._starts = starts
        self._answering = answering
        self._base = base
        self._best: float | None = None

    def state_dict(self) -> dict[str, Any]:
        """Returns the best metric so far, which a resumed run needs."""
        return {"best": self._best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the best metric so far from a saved state."""
        self._best = state_dict["best"]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Evaluates and saves weights and state at the steps where this is due."""
        assert isinstance(pl_module, FineTuning)
        if not step_done(trainer, batch_idx):
            return
        step = self._planned.first_step + trainer.global_step
        if trainer.global_step % self._every_steps == 0 or step == self._planned.last_step:
            with self._answering():
                self._evaluate_and_write(trainer, pl_module, step)
            self._save_state(trainer, step)
        elif self._stop.asked:
            self._save_state(trainer, step)

    def _evaluate_and_write(self, trainer: pl.Trainer, module: FineTuning, step: int) -> None:
        value, logged = self._evaluate(step)
        log_metrics(trainer, logged, step=step)
        if self._planned.is_last and is_best(value, self._best, sign=self._sign):
            self._best = value
            self._write(trainer, module, self._folder.best, step, value)
        if step == self._planned.last_step:
            handed_on = self._folder.stage_weights(self._planned.number)
            self._write(trainer, module, self._folder.last if self._planned.is_last else handed_on, step, value)

    def _write(self, trainer: pl.Trainer, module: FineTuning, path: Path, step: int, value: float) -> None:
        tensors = copied(module.model, self._learnt)
        if trainer.is_global_zero:
            about = {**self._about, "step": str(step), "validation": repr(value)}
            write_trained(path, tensors, about=about, starts=self._starts)
            if path == self._folder.best:
                write_adapter(self._folder.adapter, module.model, tensors, self._base, about=about, starts=self._starts)
        barrier()

    def _save_state(self, trainer: pl.Trainer, step: int) -> None:
        """Saves a state under a temporary name and renames it, so that a killed run never leaves a partial state."""
        unfinished = self._folder.checkpoints / "state.unfinished"
        trainer.save_checkpoint(unfinished, weights_only=False)
        barrier()
        if trainer.is_global_zero:
            earlier = self._folder.saved_state()
            target = self._folder.checkpoints / f"{STATE_PREFIX}{step:06d}"
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


def log_metrics(trainer: pl.Trainer, metrics: dict[str, float], *, step: int) -> None:
    """Passes metrics to every logger at a step of the run, and lets the loggers write them to disk."""
    for logger in trainer.loggers:
        logger.log_metrics(metrics, step=step)
        logger.save()


class Progress(TQDMProgressBar):
    """Lightning's progress bar over the whole stage, with rate and remaining time."""

    def __init__(self) -> None:
        super().__init__(refresh_rate=1 if sys.stderr.isatty() else 20)

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """Returns the metrics that are shown beside the bar."""
        shown = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        return dict(shown)
