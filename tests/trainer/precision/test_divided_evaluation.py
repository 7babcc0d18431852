"""Tests that a device which answers with its share of a model in 16 bits keeps no whole copy of it in 16 bits."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from medtune.models.tuning.precision import precise
from medtune.trainer.devices.ranks import join_ranks, left_as_found
from medtune.trainer.experiment.asked_model import LoadedModel
from medtune.trainer.experiment.experiment import open_experiment
from medtune.trainer.experiment.load_model import load_model
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.plan.passes import PassSize, rows_of
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import QUICK
from tests.trainer.training.states.ranks_that_train import FULL, train

CPU = torch.device("cpu")


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


@pytest.fixture
def loaded(prepared_tiny: Path, tmp_path: Path) -> Iterator[LoadedModel]:
    """A model whose language model was trained in full, as `medtune eval` loads it under fsdp."""
    settings = ("train.precision=bf16-mixed", *FULL)
    train(tmp_path / "run", prepared_tiny, *settings, devices=1)
    recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}", *QUICK, *settings, "train.strategy=fsdp"])
    with left_as_found():
        join_ranks(1, CPU, divides_weights=True)
        experiment = open_experiment(
            recipe, RunFolder(tmp_path / "asked"), name="nano", training=False, resume=False, limit=None, command=[]
        )
        model = load_model(experiment, RunFolder(tmp_path / "run").best)
        assert isinstance(model, LoadedModel)
        yield model


def _kept_after_a_pass(loaded: LoadedModel) -> int:
    """Returns how many copies of weights there still are when a pass is over."""
    casts = Casts()
    model, cached = loaded.assembled.model.eval(), torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)
    try:
        with loaded.lock_step(), torch.no_grad(), precise("bf16-mixed", CPU)(), casts:
            model(rows_of(PassSize(1, 16, 2), visual_tokens=0), None)
            return casts.alive
    finally:
        torch.set_autocast_cache_enabled(cached)


@pytest.mark.slow
def test_no_copy_of_a_weight_outlives_its_use(loaded: LoadedModel) -> None:
    assert _kept_after_a_pass(loaded) == 0


@pytest.mark.slow
def test_weights_that_require_gradients_leave_copies(loaded: LoadedModel) -> None:
    """The control: torch.autocast keeps what it has cast of them."""
    loaded.assembled.model.requires_grad_(True)
    assert _kept_after_a_pass(loaded) > 10
