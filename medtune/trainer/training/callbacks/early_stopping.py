"""Ends a stage whose validations no longer improve, and says why in words."""

import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping

from medtune.eval.benchmark import Benchmark
from medtune.trainer.recipe import schema
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation.watched import higher_is_better


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
