"""Draws replies to the same few questions before the first step and before each validation, to be looked at."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from medtune.data.readable import readable_question
from medtune.eval.results.draws import ShownDraw, read_draws, write_draws
from medtune.trainer.replies.learning import PaidDraw
from medtune.trainer.replies.prompts import shown_prompts
from medtune.trainer.training.checkpoints import is_validated
from medtune.trainer.training.lightning_module import FineTuning
from medtune.trainer.training.loggers import dashboard_of
from medtune.trainer.training.step_callbacks import step_done


class DrawsShown(Callback):
    """Writes draws to a run folder's draws.json, and to W&B where it is logged to.

    All devices draw the same replies, so that none waits for another.

    Args:
        folder: The run folder.
        first_step: The optimizer steps of the stages before.
    """

    def __init__(self, folder: Path, loggers: Sequence[Logger], *, first_step: int, every_steps: int) -> None:
        self._folder = folder
        self._loggers = loggers
        self._first_step = first_step
        self._every_steps = every_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Draws with the weights of the start, and forgets what was drawn behind the step that a run goes on from."""
        step = self._first_step + trainer.global_step
        if trainer.is_global_zero:
            write_draws(self._folder, tuple(each for each in read_draws(self._folder) if each.step <= step))
        assert isinstance(pl_module, FineTuning)
        if trainer.global_step == 0:
            pl_module.draws_first = partial(self._draw, trainer, pl_module)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Draws where a validation follows."""
        due = is_validated(trainer.global_step, every_steps=self._every_steps, last=trainer.max_steps)
        if step_done(trainer, batch_idx) and due:
            self._draw(trainer, pl_module)

    def _draw(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, FineTuning)
        loader = trainer.train_dataloader
        assert loader is not None
        step = self._first_step + trainer.global_step
        found = [_row(step, each) for each in pl_module.drawn(shown_prompts(loader.dataset, step=step))]
        if not trainer.is_global_zero:
            return
        write_draws(self._folder, (*(each for each in read_draws(self._folder) if each.step != step), *found))
        if dashboard := dashboard_of(self._loggers):
            dashboard.show_draws(found, step=step)


def _row(step: int, drawn: PaidDraw) -> ShownDraw:
    question, paid = drawn.question, drawn.paid
    return ShownDraw(
        step=step,
        question_id=question.id,
        question=readable_question(question),
        answer=question.answer,
        reply=paid.drawn.text,
        read=paid.drawn.read,
        score=paid.drawn.score,
        paid=paid.total,
    )
