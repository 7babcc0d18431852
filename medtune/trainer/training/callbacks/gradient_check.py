"""Checks after the first step that just the parts that should learn got a gradient."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from medtune.models.tuning.apply import GradientAudit
from medtune.models.tuning.plan import Tuning
from medtune.trainer.devices.ranks import summed
from medtune.trainer.training.callbacks.step_log import step_done
from medtune.trainer.training.lightning_module import FineTuning


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

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Looks at the gradients that can be seen only now."""
        if self._audit is not None:
            self._audit.look()

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
