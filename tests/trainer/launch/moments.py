"""Sends a signal to a rank of a run at a given moment, from inside the rank."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.ranks import run_ranks
from tests.trainer.launch.started_ranks import by_torchrun


class Moment(NamedTuple):
    """A signal and when which rank gets it.

    Attributes:
        number: The signal.
        rank: The rank that gets it.
        phase: While what is done: "loading", "zero_shot", "training" or "final".
        after_s: How long after the phase has begun.
    """

    number: int
    rank: int
    phase: str
    after_s: float


def _has_begun(run: Path, phase: str) -> bool:
    if phase == "loading":
        return (run / "recipe.yaml").is_file()
    if phase == "training":
        metrics = run / "metrics.csv"
        return metrics.is_file() and b"train/loss" in metrics.read_bytes()
    folder = run / phase
    return folder.is_dir() and any(each.stat().st_size for each in folder.glob("predictions.rank*.jsonl"))


def _send(run: Path, moment: Moment) -> None:
    while not _has_begun(run, moment.phase):
        time.sleep(0.001)
    time.sleep(moment.after_s)
    os.kill(os.getpid(), moment.number)


def run_with_signal(
    rank: int, world_size: int, words: Sequence[str], run: Path, moment: Moment | None, folder: Path
) -> int:
    """Runs a medtune command in this process, in a working directory, with a signal at a moment."""
    from medtune.trainer.commands.cli import main

    os.chdir(folder)
    if moment is not None and rank == moment.rank:
        threading.Thread(target=_send, args=(run, moment), daemon=True).start()
    return main(list(words))


def two_ranks(words: Sequence[str], run: Path, moment: Moment | None, folder: Path) -> list[int]:
    """Runs a medtune command as two ranks of torchrun, whose temporary files go to FOLDER/tmp."""
    variables: Callable[[int], dict[str, str]] = by_torchrun(1, 2)
    folder.joinpath("tmp").mkdir(exist_ok=True, parents=True)
    return run_ranks(
        2, run_with_signal, list(words), run, moment, folder,
        environment=lambda rank: {**variables(rank), "TMPDIR": str(folder / "tmp"), "SLURM_NTASKS": "1"},
    )  # fmt: skip


def files_of(folder: Path) -> set[str]:
    """Returns every file below a folder."""
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
