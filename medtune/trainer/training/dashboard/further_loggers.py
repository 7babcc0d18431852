"""TensorBoard and MLflow beside metrics.csv and W&B: Lightning's own loggers, with the values of metrics.csv."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from lightning_utilities.core.imports import RequirementCache

from medtune.data.files import replace_file
from medtune.trainer.recipe.schema import Board, LogBlock
from medtune.trainer.training.dashboard.sent_facets import SentFacets

TENSORBOARD: Final = "tensorboard"
MLFLOW: Final = "mlflow"
_PACKAGES: dict[Board, str] = {TENSORBOARD: "tensorboard", MLFLOW: "mlflow-skinny sqlalchemy alembic"}
MLFLOW_STORE = "MLFLOW_TRACKING_URI"
"""The variable by which MLflow's users name their server; without it a run has a store of its own."""
_REFUSED = re.compile(r"[^a-zA-Z0-9_/. -]")
"""What Lightning would strip from a name for MLflow."""


def refuse_missing_boards(block: LogBlock) -> None:
    """Refuses a dashboard whose package is missing, before a run begins.

    Raises:
        ValueError: A package is missing; the message says how it is installed.
    """
    for board in block.to:
        if not RequirementCache(module=board):
            raise ValueError(
                f"log.to names {board}, which is not installed: pip install {_PACKAGES[board]}, or leave it out"
            )


def further_loggers(
    root: Path, block: LogBlock, *, name: str, config: dict[str, object], facets: SentFacets, resume_step: int
) -> list[Logger]:
    """Returns the loggers of `log.to`.

    Args:
        name: The run's name among others.
        facets: The facets that may leave this machine; MLflow gets no others, as its store may be a server.
        resume_step: The saved step of an interrupted run, or 0.
    """
    refuse_missing_boards(block)
    of: dict[Board, Logger] = {}
    if TENSORBOARD in block.to:
        of[TENSORBOARD] = _tensorboard(root, config, resume_step=resume_step)
    if MLFLOW in block.to:
        of[MLFLOW] = MlflowRun(root, project=block.project, name=name, config=config, facets=facets)
    return list(of.values())


def is_further(logger: Logger) -> bool:
    return isinstance(logger, TensorBoardLogger | MLFlowLogger)


def _tensorboard(root: Path, config: dict[str, object], *, resume_step: int) -> TensorBoardLogger:
    # What an interrupted run logged behind its saved step is logged again.
    purged: dict[str, Any] = {"purge_step": resume_step + 1} if resume_step else {}
    logger = TensorBoardLogger(root, name=TENSORBOARD, version="", default_hp_metric=False, **purged)
    logger.log_hyperparams(config)
    return logger


class MlflowRun(MLFlowLogger):
    """A run of MLflow, which goes on as the same run after an interruption."""

    def __init__(self, root: Path, *, project: str, name: str, config: dict[str, object], facets: SentFacets) -> None:
        folder = (root / MLFLOW).resolve()
        self._known = folder / "run_id"
        self._facets = facets
        known = self._known.read_text("utf-8").strip() if self._known.is_file() else None
        folder.mkdir(parents=True, exist_ok=True)
        store = os.environ.get(MLFLOW_STORE) or f"sqlite:///{folder / 'mlflow.db'}"
        super().__init__(
            experiment_name=project,
            run_name=name,
            tracking_uri=store,
            run_id=known,
            artifact_location=(folder / "artifacts").as_uri(),
        )
        if known is None:
            self._begin(config)

    @rank_zero_only
    def _begin(self, config: dict[str, object]) -> None:
        super().log_hyperparams(config)
        replace_file(self._known, [str(self.run_id).encode()])

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs metrics under the nearest names that MLflow takes: "task=plane" is "task.plane" there."""
        kept = {mlflow_name(name): value for name, value in metrics.items() if self._facets.keeps(name)}
        super().log_metrics(kept, step)

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Does nothing: the settings are logged once, and MLflow lets none of them change."""


def mlflow_name(name: str) -> str:
    """Returns the name of a metric in the letters that MLflow takes.

    >>> mlflow_name("val/task=plane (4)/accuracy")
    'val/task.plane _4_/accuracy'
    """
    return _REFUSED.sub("_", name.replace("=", "."))
