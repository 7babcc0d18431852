"""The Lightning module: computes the loss and optimizes with AdamW.

The loss does not depend on how the groups of a step are distributed over devices and forward passes.

Shape legend: T target tokens.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy
from torch import Tensor

from medtune.models.contract import Model
from medtune.models.tuning.apply import parameters_by_part
from medtune.models.tuning.optimizers import build_optimizer
from medtune.models.tuning.plan import OptimizerName, ScheduleName, Tuning
from medtune.models.tuning.schedules import share_of_peak
from medtune.models.weights.checkpoint import trainable_names
from medtune.trainer.training.batches import MicroBatch


class NonFiniteLossError(ValueError):
    """Raised when the loss is infinite or not a number; the message names the questions of the batch."""


class FineTuning(pl.LightningModule):
    """Trains the parameters that a tuning lets learn.

    The loss of a step is the cross entropy summed over its target tokens, divided by the number of target tokens in the
    whole step, over all devices and forward passes.

    Args:
        model: The model that is trained.
        tuning: How each part of the model is trained.
        max_steps: Optimizer steps of the stage.
        warmup_ratio: The share of the steps in which the learning rate rises, from 0 to below 1.
        schedule: The form of the learning rate's curve after the warm-up.
        lr_floor: The share of its peak to which the learning rate falls.
        optimizer: AdamW, or AdamW with its moments in 8 bits.
        weight_decay: Weight decay of matrices.
        clip_norm: Largest norm of the gradient; 0 does not clip.
        gradient_divisor: The number by which the strategy divides the loss; the loss is multiplied by it.
        seed: Seed of dropout.
    """

    def __init__(
        self,
        model: Model,
        tuning: Tuning,
        *,
        max_steps: int,
        warmup_ratio: float,
        schedule: ScheduleName,
        lr_floor: float,
        optimizer: OptimizerName,
        weight_decay: float,
        clip_norm: float,
        gradient_divisor: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.model = model
        self._tuning = tuning
        self._rate_at = functools.partial(
            share_of_peak,
            schedule=schedule,
            max_steps=max_steps,
            warmup_steps=round(max_steps * warmup_ratio),
            floor=lr_floor,
        )
        self._optimizer = optimizer
        self._weight_decay = weight_decay
        self._clip_norm = clip_norm
        self._gradient_divisor = gradient_divisor
        self._seed = seed
        self._step_loss = 0.0
        self._gradient_norm = math.nan
        # A checkpoint holds the parameters that learn; on_load_checkpoint checks that it holds all of them.
        self.strict_loading = False

    def training_step(self, batch: MicroBatch, batch_idx: int) -> Tensor:
        """Returns the loss, multiplied by the number by which the strategy will divide it.

        Raises:
            NonFiniteLossError: The loss is not finite.
        """
        # Dropout must not depend on how many steps this process has run, so that a resumed run gives identical results.
        torch.manual_seed(_mixed(self._seed, batch.number, self.global_rank))
        encoded = None if batch.media is None else self.model.encode(batch.media)
        read = self.model(batch.rows, encoded)
        counted_T = read.logprobs_T.where(read.sequence_T < batch.num_counted, 0.0)
        loss: Tensor = -counted_T.sum() / batch.step_target_tokens
        value = float(loss.detach())
        if not math.isfinite(value):
            shown = ", ".join(batch.question_ids[:8])
            raise NonFiniteLossError(
                f"the loss is {value} at step {self.global_step + 1}; the batch holds the questions {shown}"
                f"{', ...' if len(batch.question_ids) > 8 else ''}. Lower the learning rates, or look at these images"
            )
        self._step_loss += value
        return loss * self._gradient_divisor

    def take_step_loss(self) -> float:
        """Returns this device's part of the loss of the finished step, and starts counting for the next step."""
        loss, self._step_loss = self._step_loss, 0.0
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Measures the norm of the whole gradient, then clips it; DeepSpeed does both by itself.

        Lightning's own clipping is not used, because it refuses a fused optimizer under bf16-mixed.
        """
        if isinstance(self.trainer.strategy, DeepSpeedStrategy):
            return
        learning = [p for p in self.model.parameters() if p.grad is not None]
        if learning:
            norm = torch.nn.utils.get_total_norm([p.grad for p in learning if p.grad is not None])
            self._gradient_norm = float(norm)
            if self._clip_norm:
                torch.nn.utils.clip_grads_with_norm_(learning, self._clip_norm, norm)

    def take_gradient_norm(self) -> float:
        """Returns the 2-norm of the finished step's gradient before clipping."""
        engine = self.trainer.model
        if isinstance(self.trainer.strategy, DeepSpeedStrategy):
            return float(engine.get_global_grad_norm())  # type: ignore[union-attr, operator]
        return self._gradient_norm

    def configure_optimizers(self) -> Any:
        """Returns AdamW and the schedule of its learning rates, which change after every optimizer step."""
        groups = parameters_by_part(self.model, self._tuning, weight_decay=self._weight_decay)
        scaled_loss = self.trainer.precision == "16-mixed"
        optimizer = build_optimizer(self._optimizer, groups, scaled_loss=scaled_loss)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._rate_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps only the trainable parameters in a saved state; the others are loaded as the recipe says."""
        learning = set(trainable_names(self))
        if "state_dict" in checkpoint:
            checkpoint["state_dict"] = {k: v for k, v in checkpoint["state_dict"].items() if k in learning}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a saved state of another model or tuning.

        Raises:
            ValueError: The names of the trainable parameters differ.
        """
        found, learning = set(checkpoint.get("state_dict", ())), set(trainable_names(self))
        if found and found != learning:
            raise ValueError(
                f"the saved state is of another model.tuning: {len(learning - found)} parameters missing, "
                f"{len(found - learning)} not known; start a new run folder"
            )


def _mixed(*numbers: int) -> int:
    """Returns the seed of a training step, made from several numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**31 - 1)
    return mixed
