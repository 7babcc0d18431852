"""Killed ranks and killed launchers: the rest ends within a minute, or the ranks are started again and go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.ranks import Forked, free_port
from tests.trainer.launch.started_ranks import arguments, by_torchrun, losses, medtune_ranks

ENDLESS = ("train.max_steps=100000", "eval.every_steps=100000")
SAVING = ("train.max_steps=40", "eval.every_steps=20", "train.save_every_steps=2")


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """The processes of a test, which are killed at its end."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        for child in _children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()


def start(words: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "medtune", *words],
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _children(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text().split()] if path.is_file() else []


def ranks_in_training(launcher: subprocess.Popen[str], run: Path) -> list[int]:
    """Returns the process ids of a launcher's ranks once they train."""
    deadline = time.monotonic() + 400
    while not ((run / "metrics.csv").is_file() and losses(run)):
        assert launcher.poll() is None, launcher.communicate()[0][-3000:]
        assert time.monotonic() < deadline, "the training did not begin"
        time.sleep(0.2)
    return _children(launcher.pid)


def end_within(process: subprocess.Popen[str], seconds: float) -> str:
    begin = time.monotonic()
    output, _ = process.communicate(timeout=400)
    assert time.monotonic() - begin < seconds, output[-3000:]
    return output


def is_gone(process: int, *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_the_error_of_a_rank_is_told_once(prepared_tiny: Path, tmp_path: Path) -> None:
    launcher = Forked(
        arguments("train", prepared_tiny, tmp_path / "run", "data.benchmark=u2_bench", extra=("--devices", "2"))
    )
    output, _ = launcher.communicate(timeout=400)
    assert launcher.returncode == 1
    assert output.count("medtune: ") == 2, output
    assert "ended the run: ValueError: " in output
    assert output.count("was prepared for the benchmark 'busi'") == 2, "by rank 0 and by the launcher"
    assert list((tmp_path / "run" / "launch" / "errors").rglob("error.json"))


@pytest.mark.soak
def test_a_killed_rank_ends_the_run(prepared_tiny: Path, tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    run = tmp_path / "run"
    launcher = start(arguments("train", prepared_tiny, run, *ENDLESS, extra=("--devices", "2")))
    started.append(launcher)
    ranks = ranks_in_training(launcher, run)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    output = end_within(launcher, 60)
    assert launcher.returncode == 1
    assert "rank 1 ended the run: it was killed by SIGKILL" in output
    assert all(is_gone(rank, within_s=5) for rank in ranks)


@pytest.mark.slow
def test_a_killed_rank_is_started_again(
    prepared_tiny: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert medtune_ranks(2, arguments("train", prepared_tiny, whole, *SAVING), by_torchrun(1, 2)) == [0, 0]
    launcher = start(arguments("train", prepared_tiny, run, *SAVING, extra=("--devices", "2", "--restarts", "1")))
    started.append(launcher)
    os.kill(ranks_in_training(launcher, run)[1], signal.SIGKILL)
    output, _ = launcher.communicate(timeout=500)
    assert launcher.returncode == 0, output[-3000:]
    assert losses(run) == pytest.approx(losses(whole), abs=1e-6)


@pytest.mark.slow
def test_a_lost_node_ends_the_others(prepared_tiny: Path, tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    run, end = tmp_path / "run", f"127.0.0.1:{free_port()}"
    words = arguments("train", prepared_tiny, run, *ENDLESS, extra=("--nodes", "2", "--rendezvous", end))
    nodes = [start([*words, "--node-rank", str(node)]) for node in range(2)]
    started.extend(nodes)
    ranks = [ranks_in_training(node, run)[0] for node in nodes]
    nodes[1].kill()
    assert is_gone(ranks[1], within_s=45), "the rank of a killed launcher lives on"
    output = end_within(nodes[0], 60)
    assert nodes[0].returncode in (1, 130), output[-3000:]
    assert is_gone(ranks[0], within_s=5)


@pytest.mark.soak
def test_the_lost_first_node_ends_the_others_which_go_on_together(
    prepared_tiny: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """Its launcher holds the rendezvous, and its rank the store through which all ranks agree."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert medtune_ranks(2, arguments("train", prepared_tiny, whole, *SAVING), by_torchrun(1, 2)) == [0, 0]
    nodes = _two_nodes(started, prepared_tiny, run)
    ranks = [ranks_in_training(node, run)[0] for node in nodes]
    nodes[0].kill()
    output = end_within(nodes[1], 60)
    assert nodes[1].returncode in (1, 130), output[-3000:]
    assert all(is_gone(rank, within_s=45) for rank in ranks)
    assert len(losses(run)) < 40, "the run was over before its launcher was killed"
    for node in _two_nodes(started, prepared_tiny, run, "--resume"):
        output, _ = node.communicate(timeout=500)
        assert node.returncode == 0, output[-3000:]
    assert losses(run) == pytest.approx(losses(whole), abs=1e-6)


def _two_nodes(started: list[subprocess.Popen[str]], root: Path, run: Path, *extra: str) -> list[subprocess.Popen[str]]:
    end = f"127.0.0.1:{free_port()}"
    words = arguments("train", root, run, *SAVING, extra=("--nodes", "2", "--rendezvous", end, *extra))
    nodes = [start([*words, "--node-rank", str(node)]) for node in range(2)]
    started.extend(nodes)
    return nodes
