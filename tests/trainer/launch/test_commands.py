"""Whole commands on two "nodes" with two processes each: torchrun's agents, srun with one task a node, and by hand."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.ranks import Forked, free_port
from tests.trainer.launch.started_ranks import arguments, by_srun, job, medtune_ranks
from tests.trainer.launch.test_two_nodes import same_as


@pytest.fixture(scope="module")
def one_device(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one") / "run"
    assert medtune_ranks(1, arguments("run", prepared_tiny, out), lambda rank: {}) == [0]
    return out


def all_succeed(processes: Sequence[Forked | subprocess.Popen[str]]) -> None:
    said = [process.communicate(timeout=500)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(
        each[-3000:] for each in said
    )


def together(commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], folder: Path) -> None:
    """Runs `medtune ARGUMENTS` with further variables for each command at the same time; asserts that all succeed."""
    all_succeed([Forked(words, folder=folder, environment=variables) for words, variables in commands])


def in_new_pythons(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Runs `python ARGUMENTS` for each command at the same time; asserts that all succeed."""
    all_succeed(
        [
            subprocess.Popen(
                [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for words in commands
        ]
    )


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.soak)])
def test_two_agents_of_torchrun(prepared_tiny: Path, one_device: Path, tmp_path: Path, each: int) -> None:
    end = f"127.0.0.1:{free_port()}"
    agent = ["-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={each}", "--rdzv-backend=c10d",
             f"--rdzv-endpoint={end}", "--local-addr=127.0.0.1", "-m", "medtune"]  # fmt: skip
    words = arguments("run", prepared_tiny, None)
    in_new_pythons([[*agent, *words]] * 2, tmp_path)
    (run,) = (tmp_path / "runs" / "nano_busi_lora").iterdir()
    same_as(one_device, run)


@pytest.mark.slow
def test_one_task_of_srun_a_node(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--nodes", "2", "--devices", "2"))
    task = by_srun(2, 1)
    together([(words, task(node)) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


@pytest.mark.slow
def test_the_command_on_each_node_by_hand(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    extra = ("--nodes", "2", "--devices", "2", "--rendezvous", f"127.0.0.1:{free_port()}")
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=extra)
    together([([*words, "--node-rank", str(node)], {}) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


@pytest.mark.slow
def test_a_batch_script_without_srun(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", "train.devices=2")
    together([(words, job(1, 2))], tmp_path)
    same_as(one_device, tmp_path / "run")
