"""Ends a stage whose validations no longer improve, and says why in words."""

from __future__ import annotations

import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping

from medtune.data.catalog import nearest
from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe import schema
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation.measures import HIGHER_IS_BETTER


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
            mode="max" if _higher_is_better(metric, benchmark) else "min",
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


def check_early_stopping(recipe: Recipe, benchmark: Benchmark) -> None:
    """Refuses early stopping that could never end a stage, or by a metric that validations do not have.

    Raises:
        ValueError: A stage has too few validations, or there is no such metric; the message says what there is.
    """
    settings = recipe.train.early_stopping
    if settings is None:
        return
    known = sorted({*benchmark.metrics, *HIGHER_IS_BETTER})
    metric = settings.metric or benchmark.primary
    if metric not in known:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}.{nearest(metric, known)} There are: {', '.join(known)}"
        )
    judged = benchmark.judging is not None and not benchmark.judging.is_extra
    if judged and metric in benchmark.metrics:
        raise ValueError(
            f"train.early_stopping.metric is {metric!r}, which waits for a judge while the model trains; set "
            "train.early_stopping.metric=loss"
        )
    for stage in recipe.stages:
        if stage.max_steps is not None and stage.max_steps <= recipe.eval.every_steps * settings.patience:
            raise ValueError(
                f"train.early_stopping.patience is {settings.patience}, and the stage {stage.name!r} of "
                f"{stage.max_steps} steps is validated every {recipe.eval.every_steps} steps (eval.every_steps), so "
                "that it could never stop: validate more often, or leave train.early_stopping out"
            )


def _higher_is_better(metric: str, benchmark: Benchmark) -> bool:
    return benchmark.metrics[metric].higher_is_better if metric in benchmark.metrics else HIGHER_IS_BETTER[metric]
