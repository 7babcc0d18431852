"""Keeps report.html a page of the run while it goes on, for whoever has no other dashboard."""

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from medtune.data.files import replace_file
from medtune.eval.report.running import RunningRun, running_html
from medtune.eval.report.write import HTML
from medtune.trainer.time_left import TimeLeft

EVERY_S = 60.0
"""The seconds after which steps alone write the page anew."""


class LivePage(Logger):
    """Writes the page at once, behind each validation and phase, and once a minute; never over the report of results.

    Args:
        folder: The run folder, whose metrics.csv another logger writes first.
        results: The file that a run with results has.
    """

    def __init__(self, folder: Path, run: RunningRun, *, results: Path, left: TimeLeft) -> None:
        super().__init__()
        self._folder = folder
        self._run = run
        self._results = results
        self._left = left
        self._written_s = time.monotonic()
        self._begin()

    @rank_zero_only
    def _begin(self) -> None:
        self._write(is_over=False)

    @property
    def name(self) -> str:
        return HTML

    @property
    def version(self) -> str:
        """Empty, as a run has one page."""
        return ""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Writes the page anew if these are no metrics of a step, or if it is a minute old."""
        is_old = time.monotonic() - self._written_s >= EVERY_S
        if is_old or not all(name.startswith("train/") for name in metrics):
            self._write(is_over=False)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Says that the process ended, where it leaves no results."""
        self._write(is_over=True)

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Does nothing: recipe.yaml holds the settings."""

    def _write(self, *, is_over: bool) -> None:
        if not self._results.is_file() and self._folder.is_dir():
            left_s, at = self._left.of_run_s, datetime.now().astimezone()
            page = running_html(self._folder, self._run, left_s=left_s, is_over=is_over, at=at)
            replace_file(self._folder / HTML, [page.encode()])
            self._written_s = time.monotonic()
