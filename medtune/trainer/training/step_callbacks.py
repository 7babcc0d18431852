"""Callbacks of a training's steps and validations: log and stop, average the weights, end early.

`WeightAverage` has to stand behind `Checkpoints` and before `SavedState`: the best weights are averaged ones, and a
saved state holds those that are trained. Lightning's own averages a copy of the whole model, not under ZeRO-3.

Source: Polyak & Juditsky 1992, doi 10.1137/0330046, for averaging; the formula is torch.optim.swa_utils' own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from medtune.eval.benchmark import Benchmark
from medtune.models.sharding.learning_values import held_values, value_pieces, write_values
from medtune.models.weights.divided_files import Piece
from medtune.trainer.devices.peak_flops import StepWork, peak_here
from medtune.trainer.devices.ranks import state_timeout, stopping_signal
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.losses import steps_per_draw
from medtune.trainer.recipe import early_stopping
from medtune.trainer.throughput import Throughput, throughput_said
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.loggers import dashboard_of
from medtune.trainer.training.stages import PlannedStage, higher_is_better


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
    """Says whether the ranks have agreed to stop after the current step, because a signal asked any of them to."""

    asked: bool = False  # Whether they have agreed to stop; it is the same on all ranks.


class ValidationStoppedError(Exception):
    """Says that all ranks leave a validation at the same batch, because a signal asked any of them to stop."""


class StepLog(Callback):
    """Logs the loss and the pace of the steps, and stops the training when a signal has asked any rank to.

    It stops after a step, or before a batch of a validation, which is then done anew when the run goes on; where steps
    learn from the same draws, after the last of them, as no state holds draws. The pace is printed before each
    validation.

    Args:
        stop: Shared with `SavedState`, which saves a state when a stop is asked for.
        work: The operations of the model that is trained.
    """

    def __init__(
        self,
        experiment: Experiment,
        planned: PlannedStage,
        loggers: Sequence[Logger],
        stop: StopRequest,
        work: StepWork,
    ) -> None:
        self._planned = planned
        self._loggers = loggers
        self._every_steps = experiment.recipe.log.every_steps
        self._timeout_minutes = experiment.recipe.train.timeout_minutes
        self._stop = stop
        self._steps_per_draw = steps_per_draw(planned.stage)
        self._left = experiment.left
        self._say = experiment.say
        peak = peak_here(experiment.device, experiment.recipe.train.precision)
        whole = None if peak is None else peak * experiment.world_size
        self._logged, self._validated = Throughput(work, whole), Throughput(work, whole)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Gives the process groups that the strategy made for itself the timeout that the recipe states."""
        state_timeout(self._timeout_minutes)
        self._begin()

    def _begin(self) -> None:
        for each in (self._logged, self._validated):
            each.begin()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Logs the loss of a step, and lets all ranks stop if any of them was asked to."""
        assert isinstance(pl_module, FineTuning)
        if pl_module.passed is not None:
            for each in (self._logged, self._validated):
                each.count(pl_module.passed)
        if not step_done(trainer, batch_idx):
            return
        loss = pl_module.step_loss()
        for each in (self._logged, self._validated):
            each.step_done()
        if trainer.global_step % self._every_steps == 0 or trainer.global_step == trainer.max_steps:
            rates = {f"train/lr_{g['name']}": g["lr"] for g in trainer.optimizers[0].param_groups if "name" in g}
            norm = pl_module.take_gradient_norm()
            metrics = {
                "train/stage": float(self._planned.number),
                "train/loss": loss,
                "train/gradient_norm": norm,
                **rates,
                **self._logged.take(pl_module.device),
                **pl_module.take_watched(),
            }
            step = self._planned.first_step + trainer.global_step
            log_metrics(self._loggers, metrics, step=step)
            if self._left.of_run_s is not None and (dashboard := dashboard_of(self._loggers)):
                dashboard.log_metrics({"train/run_left_s": self._left.of_run_s}, step=step)
        self._stop_together(trainer)

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Leaves the validation on all ranks, which run equally many batches, if any of them was asked to stop."""
        if stopping_signal():
            self._stop.asked = True
            raise ValidationStoppedError

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Says how fast the steps since the validation before were."""
        if self._validated.steps:
            pace = throughput_said(self._validated.take(pl_module.device))
            self._say(f"step {self._planned.first_step + trainer.global_step}: {pace}")

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin()
        self._stop_together(trainer)

    def _stop_together(self, trainer: pl.Trainer) -> None:
        if trainer.global_step % self._steps_per_draw == 0 and stopping_signal():
            self._stop.asked = True
            trainer.should_stop = True


class WeightAverage(Callback):
    """Averages the weights that learn after every optimizer step, in float32.

    The average begins with the weights after the first step. Where weights are divided among devices, each averages the
    share that it holds.

    Args:
        model: The model that is trained, of which the parameters that learn are averaged.
        decay: The share of the average that is kept at each step, above 0 and below 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._update = get_ema_multi_avg_fn(decay)
        self._average: list[Tensor] = []
        self._trained: list[Tensor] = []

    def pieces(self) -> dict[str, Piece]:
        """Returns what this rank holds of the average, which a saved state keeps under the parameters' names."""
        return value_pieces(self._model, self._average)

    def make(self) -> None:
        """Makes an average of the weights' form, which a saved state fills."""
        self._average = [tensor.float().clone() for tensor in held_values(self._model)]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Updates the average after each optimizer step."""
        if not step_done(trainer, batch_idx):
            return
        current = [tensor.float() for tensor in held_values(self._model)]
        if self._average:
            self._update(self._average, current, torch.tensor(trainer.global_step))
        else:
            self._average = [tensor.clone() for tensor in current]

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._trained = [tensor.clone() for tensor in held_values(self._model)]
        write_values(self._model, self._average)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        write_values(self._model, self._trained)
        self._trained = []

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Gives the model back the weights that were trained if a validation was stopped."""
        if isinstance(exception, ValidationStoppedError):
            self.on_validation_end(trainer, pl_module)


class EarlyStop(EarlyStopping):
    """Lightning's early stopping with the settings of a recipe; all ranks stop together."""

    def __init__(self, settings: early_stopping.EarlyStopping, benchmark: Benchmark, planned: PlannedStage) -> None:
        self._settings = settings
        self._planned = planned
        metric = settings.metric or benchmark.primary
        super().__init__(
            f"val/{metric}",
            min_delta=settings.min_delta,
            patience=settings.patience,
            mode="max" if higher_is_better(metric, benchmark) else "min",
            check_on_train_epoch_end=False,
        )

    @property
    def why(self) -> str:
        """Lightning's reason why the stage ended; "" while it goes on."""
        return self.stopping_reason_message or ""

    def sentence(self, trainer: pl.Trainer) -> str:
        """Returns at which step the stage ended, and why."""
        last, number = self._planned.stage.steps, self.wait_count
        better = f" by {self._settings.min_delta:g} or more" if self._settings.min_delta else ""
        return (
            f"stopped at step {trainer.global_step} of {last} because {self.monitor} had not improved{better} in "
            f"{number} validation{'s' if number != 1 else ''} (best {float(self.best_score):.4g})"
        )
