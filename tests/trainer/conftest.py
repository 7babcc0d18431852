"""Fixtures that make runs of a tiny random model."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main

QUICK = ("log.wandb=disabled", "train.max_steps=4", "eval.every_steps=2", "eval.max_new_tokens=4")


class Nano:
    """Runs `medtune COMMAND nano_busi_lora` on the tiny prepared folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def arguments(self, command: str, out: Path, *overrides: str) -> list[str]:
        return [command, "nano_busi_lora", "--out", str(out), "--set", f"data.root={self._root}", *QUICK, *overrides]

    def here(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> int:
        return main([*self.arguments(command, out, *overrides), *extra])

    def process(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "medtune", *self.arguments(command, out, *overrides), *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )

    def finished(self, command: str, out: Path, *overrides: str, extra: tuple[str, ...] = ()) -> None:
        process = self.process(command, out, *overrides, extra=extra)
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
