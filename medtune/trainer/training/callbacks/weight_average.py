"""Keeps the exponential moving average of the weights that learn, which is evaluated and saved in their place.

It has to stand behind `Checkpoints` and before `SavedState` among the callbacks: the best weights are averaged ones,
and a saved state holds those that are trained.

Lightning's own callback averages a copy of the whole model, frozen weights too, and cannot do it under ZeRO-3.

Source: Polyak & Juditsky 1992, doi 10.1137/0330046, for averaging; the formula is torch.optim.swa_utils' own.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from medtune.trainer.training.callbacks.step_log import step_done


class WeightAverage(Callback):
    """Averages the weights that learn after every optimizer step, in float32.

    The average begins with the weights after the first step. Under ZeRO-3 each device averages the share of the weights
    that it holds.

    Args:
        model: The model that is trained, of which the parameters that learn are averaged.
        decay: The share of the average that is kept at each step, above 0 and below 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._update = get_ema_multi_avg_fn(decay)
        self._average: list[Tensor] = []
        self._trained: list[Tensor] = []

    def state_dict(self) -> dict[str, Any]:
        """Returns the average so far, which a resumed run needs."""
        return {"average": [tensor.cpu() for tensor in self._average]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the average so far from a saved state."""
        self._average = list(state_dict["average"])

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Moves an average that was read from a saved state to the device of the weights."""
        self._average = [mean.to(now.device) for mean, now in zip(self._average, self._current(), strict=False)]

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
        """Gives the model back the weights that were trained."""
        self._write(self._trained)
        self._trained = []

    def _learning(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _current(self) -> list[Tensor]:
        """Returns the weights that learn; under ZeRO-3 this device's shares of them."""
        return [getattr(parameter, "ds_tensor", parameter).detach() for parameter in self._learning()]

    def _write(self, values: list[Tensor]) -> None:
        for tensor, value in zip(self._current(), values, strict=True):
            tensor.copy_(value)
        # ZeRO-3 keeps small parameters whole on every device; these are put together again, as after a step.
        whole: list[Any] = [each for each in self._learning() if getattr(each, "ds_persist", False)]
        if whole:
            whole[0].partition(whole)
            whole[0].all_gather(whole)
