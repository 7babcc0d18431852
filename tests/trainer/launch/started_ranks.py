"""Runs a medtune command in forked ranks, with the variables that torchrun or srun would set for each."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medtune.eval.results.metrics_file import read_metrics
from tests.ranks import Forked, free_port, run_ranks

SETTINGS = ("log.wandb=disabled", "log.every_steps=1", "train.max_steps=3", "train.batch_size=4", "eval.every_steps=3",
            "train.micro_batch_size=1", "eval.max_new_tokens=2", "eval.val_questions=4", "eval.conditions=[image]",
            "eval.readings=[likelihood]")  # fmt: skip


def arguments(command: str, data: Path, out: Path | None, *overrides: str, extra: Sequence[str] = ()) -> list[str]:
    """Returns the arguments of a short run of a tiny random model."""
    named = [] if out is None else ["--out", str(out)]
    return [command, "nano_busi_lora", *named, *extra, "--set", f"data.root={data}", *SETTINGS, *overrides]


def medtune_here(rank: int, world_size: int, words: Sequence[str], folder: str | None = None) -> int:
    """Runs a medtune command in this process."""
    from medtune.trainer.commands.cli import main

    if folder is not None:
        os.chdir(folder)
    return main(list(words))


def medtune_ranks(
    world_size: int, words: Sequence[str], environment: Callable[[int], Mapping[str, str]], folder: Path | None = None
) -> list[Any]:
    """Returns the exit status of a medtune command in every rank."""
    where = None if folder is None else str(folder)
    return run_ranks(world_size, medtune_here, list(words), where, environment=environment)


def by_torchrun(nodes: int, each: int) -> Callable[[int], dict[str, str]]:
    """Returns the variables that torchrun sets for the ranks of several machines."""
    port = str(free_port())
    return lambda rank: {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % each),
        "GROUP_RANK": str(rank // each),
        "WORLD_SIZE": str(nodes * each),
        "LOCAL_WORLD_SIZE": str(each),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "tests",
    }


def job(nodes: int, each: int) -> dict[str, str]:
    """Returns the variables of a SLURM job in its batch script."""
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NODELIST": "127.0.0.1",
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(nodes * each),
        "SLURM_NTASKS_PER_NODE": str(each),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }


def by_srun(nodes: int, each: int) -> Callable[[int], dict[str, str]]:
    """Returns the variables that srun sets for the tasks of a step, `each` on each node."""
    port = str(free_port())
    return lambda rank: {
        **job(nodes, each),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(nodes * each),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_TASKS_PER_NODE": f"{each}(x{nodes})" if nodes > 1 else str(each),
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % each),
        "SLURM_NODEID": str(rank // each),
        "MASTER_PORT": port,
    }


def losses(run: Path) -> list[float]:
    """Returns the training losses of a run."""
    return [row.value for row in read_metrics(run / "metrics.csv") if row.name == "train/loss"]


def asked(run: Path, phase: str) -> list[str]:
    """Returns the questions that a phase answered, each as often as it was answered."""
    lines = (run / phase / "predictions.jsonl").read_text().splitlines()
    return [f"{row['question_id']} {row['reading']}" for row in map(json.loads, lines)]


class Moment(NamedTuple):
    """A signal and when which rank gets it."""

    number: int  # The signal.
    rank: int  # The rank that gets it.
    phase: str  # While what is done: "loading", "zero_shot", "training" or "final".
    after_s: float  # How long after the phase has begun.


def _has_begun(run: Path, phase: str) -> bool:
    if phase == "loading":
        return (run / "recipe.yaml").is_file()
    if phase == "training":
        metrics = run / "metrics.csv"
        return metrics.is_file() and b",train,loss," in metrics.read_bytes()
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


def wait_for_training(launcher: subprocess.Popen[str] | Forked, run: Path) -> None:
    deadline = time.monotonic() + 400
    while not ((run / "metrics.csv").is_file() and losses(run)):
        assert launcher.poll() is None, launcher.communicate(timeout=60)[0][-3000:]
        assert time.monotonic() < deadline, "the training did not begin"
        time.sleep(0.1)


def files_of(folder: Path) -> set[str]:
    """Returns every file below a folder."""
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
