"""Shows the progress of a stage on the terminal."""

import sys
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """Lightning's progress bar over the whole stage, with rate and remaining time."""

    def __init__(self) -> None:
        super().__init__(refresh_rate=1 if sys.stderr.isatty() else 20)

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """Returns the metrics that are shown beside the bar."""
        shown = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        return dict(shown)
