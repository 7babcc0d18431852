"""Keeps what a run's validations answered: predictions, scores and logged metrics, in a folder for each step."""

import math
import shutil
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from medtune.eval.asking.plan import prediction_key
from medtune.eval.predictions.shards import PredictionWriter, merge_shards, shard_path, stored_predictions
from medtune.eval.scoring.score import PhaseScores
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.evaluate import score_answers
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.training.callbacks.step_log import ValidationStoppedError, log_metrics
from medtune.trainer.training.loggers import phase_metrics
from medtune.trainer.training.stages import PlannedStage
from medtune.trainer.training.validation.asked import Asked
from medtune.trainer.training.validation.measures import Answered

PHASE = "val"


class ValidationRecord(Callback):
    """Writes the answers of every validation and scores them as the phases before and after training are scored.

    Args:
        experiment: The experiment.
        planned: The stage that is trained; folders and the log count the steps of the whole run.
        asked: The questions of every validation.
        loggers: The loggers of the run.
    """

    def __init__(self, experiment: Experiment, planned: PlannedStage, asked: Asked, loggers: Sequence[Logger]) -> None:
        self._experiment = experiment
        self._planned = planned
        self._asked = asked
        self._loggers = loggers
        self._writer: PredictionWriter | None = None
        self._scores: PhaseScores | None = None

    def score(self) -> float:
        """Returns the primary metric of the last validation."""
        return math.nan if self._scores is None else self._scores.overall.score.value

    def _step(self, trainer: pl.Trainer) -> int:
        return self._planned.first_step + trainer.global_step

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Opens this rank's file; what a killed run wrote at the same step is written again."""
        folder, rank = self._experiment.folder.validation(self._step(trainer)), self._experiment.rank
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        barrier()
        self._writer = PredictionWriter(shard_path(folder, rank))

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Writes the answers of a batch."""
        answered: Sequence[Answered] = outputs["answered"]
        for each in answered:
            for prediction in each.predictions:
                assert self._writer is not None
                self._writer.write(prediction)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Joins the answers of all ranks and scores them; callbacks may watch every metric of the benchmark."""
        folder = self._experiment.folder.validation(self._step(trainer))
        assert self._writer is not None
        with self._writer:
            self._writer = None
        barrier()
        if self._experiment.rank == 0:
            merge_shards(folder, [prediction_key(each) for visit in self._asked.visits for each in visit.requests])
        barrier()
        predictions = list(stored_predictions(folder).values())
        scores = score_answers(self._experiment, self._asked.questions, predictions, out_dir=folder)
        self._scores = scores
        primary = scores.metrics["image"][scores.parser]
        for name, score in {**primary, self._experiment.benchmark.primary: scores.overall.score}.items():
            pl_module.log(f"{PHASE}/{name}", score.value, sync_dist=True, batch_size=1)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Removes what a validation has answered that was stopped: it is done anew when the run goes on."""
        if not isinstance(exception, ValidationStoppedError):
            return
        if self._writer is not None:
            with self._writer:
                self._writer = None
        barrier()
        if self._experiment.rank == 0:
            shutil.rmtree(self._experiment.folder.validation(self._step(trainer)), ignore_errors=True)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Logs the metrics that the module measured, and the scores with their intervals."""
        assert self._scores is not None
        measured = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith(PHASE)}
        scored = phase_metrics(PHASE, self._scores, self._experiment.benchmark)
        log_metrics(self._loggers, measured | scored, step=self._step(trainer))
