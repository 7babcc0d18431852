"""Tests of `train.deterministic`: what PyTorch is asked for, in this process and by the trainer of a run."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from medtune.trainer.devices.ranks import prefer_one_order
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.seen import differences

NEW_MEMORY: Any = torch.utils.deterministic


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    kept = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = NEW_MEMORY.fill_uninitialized_memory
    torch.use_deterministic_algorithms(False)
    NEW_MEMORY.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(kept[0], warn_only=kept[1])
    NEW_MEMORY.fill_uninitialized_memory = fills


@pytest.mark.parametrize(("kind", "wanted"), [("cuda", True), ("cuda", False), ("cpu", True)])
def test_one_order_is_asked_for_on_a_gpu_and_new_memory_is_not_filled(kind: str, wanted: bool) -> None:
    prefer_one_order(torch.device(kind), wanted=wanted)
    assert torch.are_deterministic_algorithms_enabled() == (kind == "cuda" and wanted)
    assert not NEW_MEMORY.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filled memory would be NaN, which is not likely by chance in a thousand numbers.
    assert not all(bool(torch.empty(1000).isnan().all()) for _ in range(3))


@pytest.mark.parametrize(("wanted", "asked"), [("true", "warn"), ("false", False)])
def test_the_trainer_of_a_run_is_told(wanted: str, asked: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from medtune.trainer.training import fit

    seen: dict[str, Any] = {}

    class Trainer:
        def __init__(self, **settings: Any) -> None:
            seen.update(settings)

    recipe = read_recipe("nano_busi_lora", [f"train.deterministic={wanted}", "train.precision=32-true"])
    experiment: Any = SimpleNamespace(
        recipe=recipe, world_size=1, device=torch.device("cpu"), started=None, folder=SimpleNamespace(root=Path("run"))
    )
    planned: Any = SimpleNamespace(stage=recipe.stages[0])

    monkeypatch.setattr(pl, "Trainer", Trainer)
    for name in ("StartedEnvironment", "keep_to_run_folder"):
        monkeypatch.setattr(fit, name, lambda *_: None)
    fit._trainer(experiment, planned, [], accumulate=1)
    assert seen["deterministic"] == asked


def test_a_run_may_be_resumed_in_any_order() -> None:
    before, now = (read_recipe("nano_busi_lora", [f"train.deterministic={each}"]) for each in ("true", "false"))
    assert differences(before, now) == []
