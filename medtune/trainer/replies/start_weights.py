"""Keeps what learns as it was when the stage began, which losses over draws and pairs compare the model with.

A stage that follows another begins with that one's weights; adapters that were switched off would be the model before
both.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from medtune.models.sharding.learning_values import held_values, value_pieces, write_values
from medtune.models.sharding.lock_step import Turns
from medtune.models.weights.divided_files import Piece


class StartWeights(Callback):
    """Copies what learns before the first step; a saved state of ours keeps the copy."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._values: list[Tensor] = []

    def pieces(self) -> dict[str, Piece]:
        """Returns what this rank holds of the copy, under the parameters' names."""
        return value_pieces(self._model, self._values)

    def make(self) -> None:
        """Makes a copy of the weights' form, which a saved state fills."""
        self._values = [each.clone() for each in held_values(self._model)]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copies the weights of a stage that begins."""
        if not self._values:
            if trainer.global_step:
                raise ValueError(
                    "the loss compares the model with the one with which its training began, whose weights no "
                    "checkpoint of Lightning's holds: go on with `medtune run --resume`, or set "
                    "train.loss.settings.beta=0"
                )
            self.make()

    @contextmanager
    def in_place(self, turns: Turns | None) -> Iterator[None]:
        """Gives the model its first weights while the context lasts.

        Args:
            turns: The agreement of ranks that share a divided model. They change their shares together, because each
                computes with what the others hold. None where the model is whole.
        """
        _meet(turns)
        now = [each.clone() for each in held_values(self._model)]
        write_values(self._model, self._values)
        torch.clear_autocast_cache()
        _meet(turns)
        yield
        _meet(turns)
        write_values(self._model, now)
        torch.clear_autocast_cache()
        _meet(turns)


def _meet(turns: Turns | None) -> None:
    if turns is not None:
        turns.meet()
