"""Fixtures that make runs of a tiny random model."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from medtune.eval.results.metrics_file import read_metrics
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
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

    def said(self, command: str, out: Path, *overrides: str) -> str:
        """Runs a command that has to succeed, for a fixture of a module, and returns what it printed."""
        screen = io.StringIO()
        with redirect_stdout(screen), redirect_stderr(screen):
            assert self.here(command, out, *overrides) == 0, screen.getvalue()
        return screen.getvalue()

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

    def stopped(self, step: int, number: int, command: str, out: Path, *overrides: str) -> tuple[int, str]:
        """Sends a signal to a command once a step is saved; returns its status and output. Two devices are launched."""
        begin = self.launched if "train.devices=2" in overrides else self.process
        process, deadline = begin(command, out, *overrides), time.monotonic() + 300
        while RunFolder(out).saved_step() < step and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=300)
        assert process.returncode is not None
        return process.returncode, output

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


@pytest.fixture(scope="session")
def nano_run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with what it printed in screen.txt beside it; whoever changes it takes a copy."""
    out = tmp_path_factory.mktemp("nano_run") / "run"
    out.with_name("screen.txt").write_text(Nano(prepared_tiny).said("run", out), "utf-8")
    return out


Capture = pytest.CaptureFixture[str]
Curve = Callable[[Path, str], list[float]]


def json_of(path: Path) -> Any:
    """Returns the content of a JSON file."""
    return json.loads(path.read_text("utf-8"))


def weights_apart(one: Path, other: Path, name: str = "last") -> float:
    """Returns the largest difference between the weights of two runs, which have to be of the same parameters."""
    mine, theirs = (load_file(run / "checkpoints" / f"{name}.safetensors") for run in (one, other))
    assert mine.keys() == theirs.keys()
    return max(float((mine[each] - theirs[each]).abs().max()) for each in mine)


def same_weights(one: Path, other: Path, name: str = "last") -> bool:
    """Returns whether the weights of two runs are equal to the bit."""
    mine, theirs = (load_file(run / "checkpoints" / f"{name}.safetensors") for run in (one, other))
    return mine.keys() == theirs.keys() and all(torch.equal(mine[each], theirs[each]) for each in mine)


@pytest.fixture
def curve() -> Curve:
    """Returns one column of a run's metrics.csv."""

    def read(run: Path, name: str) -> list[float]:
        return [row.value for row in read_metrics(run / "metrics.csv") if row.name == name]

    return read


Told = Callable[[int], str]


@pytest.fixture
def refused(capsys: Capture) -> Told:
    """Takes the exit status of a command that has to be 1, and returns what it said on stderr."""

    def told(status: int) -> str:
        assert status == 1
        return capsys.readouterr().err

    return told


@pytest.fixture
def shown(capsys: Capture) -> Told:
    """Takes the exit status of a command that has to be 0, and returns what it printed."""

    def told(status: int) -> str:
        assert status == 0
        return capsys.readouterr().out

    return told
