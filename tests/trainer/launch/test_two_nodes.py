"""Two machines with two processes each, however they are started, give the losses of one device and one run folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from medtune.trainer.recipe.read import read_recipe
from tests.trainer.launch.started_ranks import arguments, asked, by_srun, by_torchrun, losses, medtune_ranks

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


@pytest.mark.parametrize("starter", [pytest.param(by_torchrun, marks=pytest.mark.slow), by_srun])
def test_two_nodes_of_two_processes(starter: Starter, prepared_tiny: Path, one_device: Path, tmp_path: Path) -> None:
    # Without --out each process would name the run after its own clock.
    words = arguments("run", prepared_tiny, None)
    assert medtune_ranks(4, words, starter(2, 2), folder=tmp_path) == [0, 0, 0, 0]
    (run,) = (tmp_path / "runs" / "nano_busi_lora").iterdir()
    same_as(one_device, run)
    train = read_recipe(str(run / "recipe.yaml")).train
    assert (train.nodes, train.devices) == (2, 2)
