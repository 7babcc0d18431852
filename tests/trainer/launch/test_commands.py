"""Whole commands on two "nodes" with two processes each: torchrun's agents, srun with one task a node, and by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.ranks import free_port
from tests.trainer.launch.started_ranks import arguments, by_srun, job, medtune_ranks
from tests.trainer.launch.test_two_nodes import same_as

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_device(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one") / "run"
    assert medtune_ranks(1, arguments("run", prepared_tiny, out), lambda rank: {}) == [0]
    return out


def together(commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], folder: Path) -> None:
    """Runs `python ARGUMENTS` with further variables for each command at the same time; asserts that all succeed."""
    processes = [
        subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **variables},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words, variables in commands
    ]
    outputs = [process.communicate(timeout=500)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(
        output[-3000:] for output in outputs
    )


def test_two_agents_of_torchrun(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    end = f"127.0.0.1:{free_port()}"
    agent = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d",
             f"--rdzv-endpoint={end}", "--local-addr=127.0.0.1", "-m", "medtune"]  # fmt: skip
    words = arguments("run", prepared_tiny, None)
    together([([*agent, *words], {})] * 2, tmp_path)
    (run,) = (tmp_path / "runs" / "nano_busi_lora").iterdir()
    same_as(one_device, run)


def test_one_task_of_srun_a_node(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--nodes", "2", "--devices", "2"))
    task = by_srun(2, 1)
    together([(["-m", "medtune", *words], task(node)) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


def test_the_command_on_each_node_by_hand(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    extra = ("--nodes", "2", "--devices", "2", "--rendezvous", f"127.0.0.1:{free_port()}")
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=extra)
    together([(["-m", "medtune", *words, *(("--node-rank", str(node)))], {}) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


def test_a_batch_script_without_srun(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", "train.devices=2")
    together([(["-m", "medtune", *words], job(1, 2))], tmp_path)
    same_as(one_device, tmp_path / "run")
