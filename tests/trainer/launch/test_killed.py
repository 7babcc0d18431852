"""A signal to one rank stops all of them at one step, writes nothing outside the run folder, and resumes exactly."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from medtune.trainer.launch import agent
from medtune.trainer.launch.marks import stopped_by
from medtune.trainer.runs.run_folder import RunFolder
from tests.ranks import Forked, free_port
from tests.trainer.launch.started_ranks import (
    Moment,
    arguments,
    asked,
    by_torchrun,
    files_of,
    losses,
    medtune_ranks,
    two_ranks,
    wait_for_training,
)

LONG = ("train.max_steps=8", "eval.every_steps=4")
FOREIGN = b"another run's weights"


@pytest.fixture(scope="module")
def whole(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    out = folder / "run"
    assert two_ranks(arguments("run", prepared_tiny, out, *LONG), out, None, folder) == [0, 0]
    return out


def stopped_and_resumed(data: Path, whole: Path, folder: Path, moment: Moment) -> None:
    """Asserts that a run which is stopped at a moment and resumed equals the whole one, beside foreign weights."""
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    out = folder / "run"
    words = arguments("run", data, out, *LONG)
    if moment.number == signal.SIGKILL:
        with pytest.raises(AssertionError, match=f"rank {moment.rank} of 2 died with status -9|another rank has ended|"
                           "Connection closed|Connection reset"):  # fmt: skip
            two_ranks(words, out, moment, work)
    else:
        assert two_ranks(words, out, moment, work) == [0, 0]
        assert stopped_by(out) == signal.Signals(moment.number).name or (out / "report.html").is_file(), moment
    again = ["--resume"] if RunFolder(out).recipe.is_file() else []
    if not again and moment.number == signal.SIGKILL:
        out = folder / "again"
        words = arguments("run", data, out, *LONG)
    assert two_ranks([*words, *again], out, None, work) == [0, 0]
    assert stopped_by(out) is None
    assert losses(out) == pytest.approx(losses(whole), abs=1e-6), moment
    for phase in ("zero_shot", "final"):
        assert sorted(asked(out, phase)) == sorted(asked(whole, phase)), moment
    assert files_of(work) == {"hpc_ckpt_1.ckpt"}, moment
    assert (work / "hpc_ckpt_1.ckpt").read_bytes() == FOREIGN


# The slow suite sends it to one rank in a validation (training/states/test_stopped_validation.py).
@pytest.mark.soak
def test_sigusr1_to_one_rank_in_training(prepared_tiny: Path, whole: Path, tmp_path: Path) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, Moment(signal.SIGUSR1, 1, "training", 0.0))


@pytest.mark.soak
def test_sigterm_to_one_rank_while_it_answers(prepared_tiny: Path, whole: Path, tmp_path: Path) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, Moment(signal.SIGTERM, 1, "zero_shot", 0.0))


def test_foreign_weights_in_the_working_directory_are_not_read(prepared_tiny: Path, tmp_path: Path) -> None:
    words = arguments("train", prepared_tiny, tmp_path / "clean")
    assert medtune_ranks(1, words, lambda rank: {}) == [0]
    (tmp_path / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    words = arguments("train", prepared_tiny, tmp_path / "run")
    assert medtune_ranks(1, words, lambda rank: {"SLURM_NTASKS": "1"}, folder=tmp_path) == [0]
    assert losses(tmp_path / "run")[0] == losses(tmp_path / "clean")[0]
    inside = tmp_path / "other" / "lightning"
    inside.mkdir(parents=True)
    (inside / "hpc_ckpt_1.ckpt").write_bytes(FOREIGN)
    words = arguments("train", prepared_tiny, tmp_path / "other")
    assert medtune_ranks(1, words, lambda rank: {"SLURM_NTASKS": "1"}) == [1], "no run of ours writes it there"


__all__ = ["whole"]
NUMBER, SEED = 20, 19
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL)
PHASES = ("loading", "zero_shot", "training", "training", "final")


def moments() -> list[Moment]:
    """Returns the moments: each signal and each phase comes equally often."""
    draw = random.Random(SEED)
    return [
        Moment(SIGNALS[i % len(SIGNALS)], draw.randrange(2), PHASES[i % len(PHASES)], draw.uniform(0, 0.4))
        for i in range(NUMBER)
    ]


def _name(moment: Moment) -> str:
    return f"{signal.Signals(moment.number).name}-{moment.phase}-{moment.rank}"


@pytest.mark.soak
@pytest.mark.parametrize("moment", [pytest.param(m, id=f"{i}-{_name(m)}") for i, m in enumerate(moments())])
def test_stopped_at_a_seeded_moment(prepared_tiny: Path, whole: Path, tmp_path: Path, moment: Moment) -> None:
    stopped_and_resumed(prepared_tiny, whole, tmp_path, moment)


ENDLESS = ("train.max_steps=100000", "eval.every_steps=100000")
SAVING = ("train.max_steps=40", "eval.every_steps=20", "train.save_every_steps=2")
RESTARTED = ("train.max_steps=12", "eval.every_steps=12", "train.save_every_steps=4")


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
    wait_for_training(launcher, run)
    return _children(launcher.pid)


def end_within(process: subprocess.Popen[str] | Forked, seconds: float) -> str:
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
def test_a_killed_rank_is_started_again(prepared_tiny: Path, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert medtune_ranks(2, arguments("train", prepared_tiny, whole, *RESTARTED), by_torchrun(1, 2)) == [0, 0]
    launcher = Forked(arguments("train", prepared_tiny, run, *RESTARTED, extra=("--devices", "2", "--restarts", "1")))
    wait_for_training(launcher, run)
    os.kill(killed := launcher.ranks()[1], signal.SIGKILL)
    while launcher.ranks()[1] == killed:
        assert launcher.poll() is None, launcher.communicate(timeout=60)[0][-3000:]
        time.sleep(0.1)
    output, _ = launcher.communicate(timeout=500)
    assert launcher.returncode == 0, output[-3000:]
    assert losses(run) == pytest.approx(losses(whole), abs=1e-6)


@pytest.mark.slow
def test_a_lost_node_ends_the_others(prepared_tiny: Path, tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    run, end = tmp_path / "run", f"127.0.0.1:{free_port()}"
    words = arguments("train", prepared_tiny, run, *ENDLESS, extra=("--nodes", "2", "--rendezvous", end))
    # How long it waits for the lost one once its own rank has stopped.
    node = Forked([*words, "--node-rank", "0"], constants={(agent.__name__, "OTHERS_S"): 2})
    # A rank watches its parent, which has to be the launcher that is killed, and no server that forks for it.
    lost = start([*words, "--node-rank", "1"])
    started.append(lost)
    (rank,) = ranks_in_training(lost, run)
    (other,) = node.ranks().values()
    lost.kill()
    assert is_gone(rank, within_s=45), "the rank of a killed launcher lives on"
    output = end_within(node, 60 - agent.OTHERS_S)
    assert node.returncode in (1, 130), output[-3000:]
    assert is_gone(other, within_s=5)


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
