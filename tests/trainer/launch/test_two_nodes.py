"""Two machines with two processes each, however they are started, give the losses of one device and one run folder."""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from medtune.trainer.commands.cli import main, parser
from medtune.trainer.devices import ranks
from medtune.trainer.recipe.read import read_recipe
from tests.ranks import Forked, free_port, run_ranks
from tests.soak import in_suites
from tests.trainer.conftest import Told
from tests.trainer.launch.started_ranks import arguments, asked, by_srun, by_torchrun, job, losses, medtune_ranks

Starter = Callable[[int, int], Callable[[int], dict[str, str]]]


@pytest.fixture(scope="module")
def one_device(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one") / "run"
    assert medtune_ranks(1, arguments("run", prepared_tiny, out), lambda rank: {}) == [0]
    return out


def same_as(one: Path, run: Path) -> None:
    """Asserts that a run has the losses of one device and answered every question once."""
    assert losses(run) == pytest.approx(losses(one), abs=1e-6)
    assert len(losses(run)) == 3
    for phase in ("zero_shot", "final"):
        answered = asked(run, phase)
        assert len(answered) == len(set(answered)) == 9
        assert answered == asked(one, phase)


# Two nodes of two ranks are in the slow suite below, where the one task of a node starts them.
@pytest.mark.parametrize(
    ("starter", "each"), in_suites(((by_torchrun, 2), (by_srun, 2), (by_srun, 1)), slow=((by_srun, 1),))
)
def test_two_nodes_of_processes(
    starter: Starter, each: int, prepared_tiny: Path, one_device: Path, tmp_path: Path
) -> None:
    # Without --out each process would name the run after its own clock.
    words = arguments("run", prepared_tiny, None)
    assert medtune_ranks(2 * each, words, starter(2, each), folder=tmp_path) == [0] * 2 * each
    (run,) = (tmp_path / "runs" / "nano_busi_lora").iterdir()
    same_as(one_device, run)
    train = read_recipe(str(run / "recipe.yaml")).train
    assert (train.nodes, train.devices) == (2, each)


def all_succeed(processes: Sequence[Forked]) -> None:
    said = [process.communicate(timeout=500)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(
        each[-3000:] for each in said
    )


def together(commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], folder: Path) -> None:
    """Runs `medtune ARGUMENTS` with further variables for each command at the same time; asserts that all succeed."""
    all_succeed([Forked(words, folder=folder, environment=variables) for words, variables in commands])


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.soak)])
def test_two_agents_of_torchrun(prepared_tiny: Path, one_device: Path, tmp_path: Path, each: int) -> None:
    end = f"127.0.0.1:{free_port()}"
    agent = ["--nnodes=2", f"--nproc-per-node={each}", "--rdzv-backend=c10d", f"--rdzv-endpoint={end}",
             "--local-addr=127.0.0.1", "-m", "medtune"]  # fmt: skip
    words = [*agent, *arguments("run", prepared_tiny, None)]
    all_succeed([Forked(words, folder=tmp_path, program="torchrun") for _ in range(2)])
    (run,) = (tmp_path / "runs" / "nano_busi_lora").iterdir()
    same_as(one_device, run)


@pytest.mark.slow
def test_one_task_of_srun_a_node(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=("--nodes", "2", "--devices", "2"))
    task = by_srun(2, 1)
    together([(words, task(node)) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


@pytest.mark.soak
@pytest.mark.parametrize("each", [1, 2])
def test_the_command_on_each_node_by_hand(prepared_tiny: Path, one_device: Path, tmp_path: Path, each: int) -> None:
    extra = ("--nodes", "2", "--devices", str(each), "--rendezvous", f"127.0.0.1:{free_port()}")
    words = arguments("run", prepared_tiny, tmp_path / "run", extra=extra)
    together([([*words, "--node-rank", str(node)], {}) for node in range(2)], tmp_path)
    same_as(one_device, tmp_path / "run")


@pytest.mark.soak
def test_a_batch_script_without_srun(prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    words = arguments("run", prepared_tiny, tmp_path / "run", "train.devices=2")
    together([(words, job(1, 2))], tmp_path)
    same_as(one_device, tmp_path / "run")


PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
LINES = [line.strip() for line in PAGE.read_text("utf-8").splitlines() if line.startswith("    ")]
COMMANDS = [line[line.index("medtune ") :] for line in LINES if "medtune " in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_understood(command: str) -> None:
    words = shlex.split(command)[1:]
    assert parser([words[0]]).parse_args(words).command


def test_the_dry_command_prints_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Told) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = [each for each in COMMANDS if each.endswith("--dry")]
    script = shown(main(shlex.split(command)[1:]))
    for line in [line for line in LINES if line.startswith("#SBATCH")]:
        for option in line.split()[1:]:
            assert f"#SBATCH {option}\n" in script
    assert "#SBATCH --account=mine\n" in script
    assert "srun --kill-on-bad-exit=1 --ntasks-per-node=1 " in script


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 9


CPU = torch.device("cpu")
STEP_S, LATE_S = 0.5, 2.0
"""How long a step, or what stands for one, may take, and how late rank 1 is."""


def _with_a_late_rank(rank: int, world_size: int) -> dict[str, str]:
    ranks.join_ranks(world_size, CPU, timeout_minutes=60)
    own: Any = dist.new_group(backend="gloo")
    ranks.state_timeout(STEP_S / 60)
    told = ranks.told_by_first("of rank 0" if rank == 0 else "of rank 1")
    time.sleep(rank * LATE_S)
    ranks.barrier()
    highest = ranks.highest(rank + 5)
    time.sleep(rank * LATE_S)
    step = "in time"
    try:
        dist.all_reduce(torch.ones(1), group=own)
    except RuntimeError:
        step = "timed out"
    return {"told": told, "highest": str(highest), "step": step}


def _waiting_too_long(rank: int, world_size: int) -> str:
    ranks.WAITING_HOURS = STEP_S / 3600
    ranks.join_ranks(world_size, CPU)
    if rank == 1:
        time.sleep(LATE_S)
        return ""
    try:
        ranks.barrier()
    except RuntimeError as error:
        return str(error)
    return "in time"


def test_waiting_takes_longer_than_a_step_may() -> None:
    first, second = run_ranks(2, _with_a_late_rank)
    assert first == {"told": "of rank 0", "highest": "6", "step": "timed out"}
    assert second["told"] == "of rank 0"


def test_the_error_names_the_timeout() -> None:
    message, _ = run_ranks(2, _waiting_too_long)
    assert "hours for the other ranks (WAITING_HOURS)" in message
