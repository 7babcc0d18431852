"""Keeps the exponential moving average of the weights that learn, which is evaluated and saved in their place.

It has to stand behind `Checkpoints` and before `SavedState` among the callbacks: the best weights are averaged ones,
and a saved state holds those that are trained.

Lightning's own callback averages a copy of the whole model, frozen weights too, and cannot do it under ZeRO-3.

Source: Polyak & Juditsky 1992, doi 10.1137/0330046, for averaging; the formula is torch.optim.swa_utils' own.
"""

from dataclasses import replace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from medtune.eval.benchmark import Benchmark
from medtune.models.weights.divided.pieces import Piece, held_piece, local_part
from medtune.trainer.recipe import schema
from medtune.trainer.training.callbacks.step_log import ValidationStoppedError, step_done
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation.watched import higher_is_better


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
        held = {name: held_piece(p) for name, p in self._model.named_parameters() if p.requires_grad}
        return {
            name: replace(piece, values_N=mean.view(-1)[: piece.count])
            for (name, piece), mean in zip(held.items(), self._average, strict=bool(self._average))
            if piece is not None
        }

    def make(self) -> None:
        """Makes an average of the weights' form, which a saved state fills."""
        self._average = [tensor.float().clone() for tensor in self._current()]

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Updates the average after each optimizer step."""
        if not step_done(trainer, batch_idx):
            return
        current = [tensor.float() for tensor in self._current()]
        if self._average:
            self._update(self._average, current, torch.tensor(trainer.global_step))
        else:
            self._average = [tensor.clone() for tensor in current]

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Gives the model the averaged weights."""
        self._trained = [tensor.clone() for tensor in self._current()]
        self._write(self._average)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._write(self._trained)
        self._trained = []

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Gives the model back the weights that were trained if a validation was stopped."""
        if isinstance(exception, ValidationStoppedError):
            self.on_validation_end(trainer, pl_module)

    def _learning(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _current(self) -> list[Tensor]:
        return [local_part(parameter).detach() for parameter in self._learning()]

    def _write(self, values: list[Tensor]) -> None:
        for tensor, value in zip(self._current(), values, strict=True):
            tensor.copy_(value)
        # ZeRO-3 keeps small parameters whole on every device; these are put together again, as after a step.
        whole: list[Any] = [each for each in self._learning() if getattr(each, "ds_persist", False)]
        if whole:
            whole[0].partition(whole)
            whole[0].all_gather(whole)


class EarlyStop(EarlyStopping):
    """Lightning's early stopping with the settings of a recipe; all ranks stop together.

    Args:
        settings: The recipe's block train.early_stopping.
        benchmark: The benchmark whose metrics may be named.
        planned: The stage that may end early.
    """

    def __init__(self, settings: schema.EarlyStopping, benchmark: Benchmark, planned: PlannedStage) -> None:
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
