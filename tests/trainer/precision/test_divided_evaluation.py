"""Tests that a device which answers with its share of a model in 16 bits keeps no whole copy of it in 16 bits."""

import functools
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from medtune.models.tuning.precision import precise
from medtune.trainer.devices.ranks import join_ranks
from medtune.trainer.experiment.evaluate import LoadedModel
from medtune.trainer.experiment.experiment import open_experiment
from medtune.trainer.experiment.load_model import load_model
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.plan.gathered import PassSize, rows_of
from medtune.trainer.recipe.read import read_recipe
from tests.ranks import run_ranks
from tests.trainer.conftest import QUICK
from tests.trainer.training.states.ranks_that_train import FULL, train

CPU = torch.device("cpu")
SETTINGS = ("train.precision=bf16-mixed", *FULL)


class Casts(TorchDispatchMode):
    """Remembers the matrices that were made in bfloat16, without keeping them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._made: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and out.dtype == torch.bfloat16 and out.dim() == 2:
            self._made.append(weakref.ref(out))
        return out

    @property
    def alive(self) -> int:
        return sum(made() is not None for made in self._made)


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose language model was trained in full."""
    out = tmp_path_factory.mktemp("full") / "run"
    train(out, prepared_tiny, *SETTINGS, devices=1)
    return out


def kept_after_a_pass(rank: int, world_size: int, root: Path, run: Path, out: Path, *, requires_grad: bool) -> int:
    """Returns how many copies of weights there still are after a pass of a model that is loaded as under fsdp."""
    recipe = read_recipe("nano_busi_lora", [f"data.root={root}", *QUICK, *SETTINGS, "train.strategy=fsdp"])
    join_ranks(1, CPU, divides_weights=True)
    experiment = open_experiment(
        recipe, RunFolder(out), name="nano", training=False, resume=False, limit=None, command=[]
    )
    loaded = load_model(experiment, RunFolder(run).best)
    assert isinstance(loaded, LoadedModel)
    if requires_grad:
        loaded.assembled.model.requires_grad_(True)
    casts = Casts()
    model = loaded.assembled.model.eval()
    torch.set_autocast_cache_enabled(True)
    with loaded.lock_step(), torch.no_grad(), precise("bf16-mixed", CPU)(), casts:
        model(rows_of(PassSize(1, 16, 2), visual_tokens=0), None)
        return casts.alive


@pytest.mark.slow
def test_no_copy_of_a_weight_outlives_its_use(prepared_tiny: Path, run: Path, tmp_path: Path) -> None:
    assert run_ranks(1, functools.partial(kept_after_a_pass, requires_grad=False), prepared_tiny, run, tmp_path) == [0]


@pytest.mark.slow
def test_weights_that_require_gradients_leave_copies(prepared_tiny: Path, run: Path, tmp_path: Path) -> None:
    """The control: torch.autocast keeps what it has cast of them."""
    (kept,) = run_ranks(1, functools.partial(kept_after_a_pass, requires_grad=True), prepared_tiny, run, tmp_path)
    assert kept > 10
