"""Fixtures that make runs of a tiny random model."""

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from medtune.trainer.commands.cli import main
from tests.forked_readers import forked_readers
from tests.ranks import Forked, medtune_forked

__all__ = ["forked_readers"]

QUICK = ("log.wandb=disabled", "train.max_steps=4", "eval.every_steps=2", "eval.max_new_tokens=4")


@pytest.fixture(autouse=True)
def casts_are_kept_as_ever() -> Iterator[None]:
    """Undoes what a training with divided weights leaves behind in its process, which ends with it elsewhere."""
    yield
    torch.set_autocast_cache_enabled(True)


class Nano:
    """Runs `medtune COMMAND nano_busi_lora` on the tiny prepared folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def arguments(self, command: str, out: Path, *overrides: str) -> list[str]:
        return [command, "nano_busi_lora", "--out", str(out), "--set", f"data.root={self._root}", *QUICK, *overrides]

    def here(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> int:
        return main([*self.arguments(command, out, *overrides), *extra])

    def process(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> Forked:
        """Starts the command in a forked process; without a launcher, which a signal to the group would not reach."""
        return Forked([*self.arguments(command, out, *overrides), *extra])

    def launched(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Starts the command in a new Python, with its launcher and ranks in one process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "medtune", *self.arguments(command, out, *overrides), *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            # A shell lets what it starts in the background ignore Ctrl-C, and the tests pass that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def finished(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> None:
        """Runs the command in a forked process, and each of its ranks in one too; in new ones where there is a GPU."""
        if not torch.cuda.is_available():
            medtune_forked(*self.arguments(command, out, *overrides), *extra)
            return
        process = self.launched(command, out, *overrides, extra=extra)
        output, _ = process.communicate(timeout=500)
        assert process.returncode == 0, output[-3000:]


@pytest.fixture
def nano(prepared_tiny: Path) -> Nano:
    return Nano(prepared_tiny)


@pytest.fixture
def curve() -> Callable[[Path, str], list[float]]:
    """Returns one column of a run's metrics.csv."""

    def read(run: Path, name: str) -> list[float]:
        with (run / "metrics.csv").open(newline="") as file:
            return [float(row[name]) for row in csv.DictReader(file) if row.get(name)]

    return read
