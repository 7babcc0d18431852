"""Tests that weights are narrowed in the host's memory, so that the device never holds a wider model than it uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from medtune.models.tuning.precision import set_types
from medtune.trainer.experiment import load_model as loading
from medtune.trainer.experiment.evaluate import LoadedModel
from medtune.trainer.experiment.experiment import Experiment, open_experiment
from medtune.trainer.experiment.load_model import load_as_left, load_model, load_trainable, place
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import QUICK, Nano

DEVICE = torch.device("meta")
"""Stands for a GPU: what is moved there can be counted, and nothing else is there."""
Opened = Callable[..., Experiment]


class Arrivals(TorchDispatchMode):
    """Records the dtype and the bytes of every tensor that is moved from the CPU to the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved: list[tuple[torch.dtype, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        if isinstance(out, Tensor) and isinstance(source, Tensor) and out.device != source.device:
            self.moved.append((out.dtype, out.numel() * out.element_size()))
        return out

    @property
    def total(self) -> int:
        return sum(size for _, size in self.moved)


@contextmanager
def arriving() -> Iterator[Arrivals]:
    with Arrivals() as arrivals:
        yield arrivals


@pytest.fixture
def opened(prepared_tiny: Path, tmp_path: Path) -> Opened:
    """Opens nano_busi_lora with a device that counts what reaches it."""

    def open_on_device(*settings: str) -> Experiment:
        recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}", *QUICK, *settings])
        experiment = open_experiment(
            recipe, RunFolder(tmp_path / "run"), name="nano", training=True, resume=False, limit=None, command=[]
        )
        return replace(experiment, device=DEVICE)

    return open_on_device


def _bytes(model: torch.nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize("trained", [False, True])
def test_no_more_bytes_reach_the_device_than_the_model_has_there(opened: Opened, trained: bool) -> None:
    experiment = opened("train.precision=bf16-mixed")
    with arriving() as arrivals:
        if trained:
            model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
        else:
            loaded = load_model(experiment, None)
            assert isinstance(loaded, LoadedModel)
            model = loaded.assembled.model
    assert all(t.device == DEVICE for t in (*model.parameters(), *model.buffers()))
    assert {p.dtype for p in model.parameters() if not p.requires_grad and p.dim() > 1} == {torch.bfloat16}
    # A tied weight is one parameter of the model, so nothing is counted twice.
    assert arrivals.total == _bytes(model) > 50_000


def test_the_count_sees_a_model_that_is_narrowed_on_the_device(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: the order of before, with which a float32 file was on the device as a whole."""

    def too_late(model: Any, precision: Any, device: torch.device) -> None:
        model.to(device)
        set_types(model, precision)

    monkeypatch.setattr(loading, "place", too_late)
    experiment = opened("train.precision=bf16-mixed")
    with arriving() as arrivals:
        model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    narrow = sum(p.numel() for p in model.parameters() if p.dtype == torch.bfloat16)
    assert arrivals.total == _bytes(model) + 2 * narrow > _bytes(model)


def test_under_zero_3_nothing_reaches_the_device_before_it_is_shared_out(opened: Opened) -> None:
    experiment = opened("train.precision=bf16-mixed", "train.strategy=deepspeed_stage_3")
    with arriving() as arrivals:
        model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    assert arrivals.total == 0
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}


def test_in_4_bits_one_layer_after_another_is_quantised_before_the_rest_is_moved(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    bnb = pytest.importorskip("bitsandbytes")
    wide, packed = [], bnb.nn.Params4bit.to

    def watched(self: Any, *args: Any, **settings: Any) -> Any:
        if self.dtype.is_floating_point:
            wide.append(self.numel())
        return packed(self, *args, **settings)

    monkeypatch.setattr(bnb.nn.Params4bit, "to", watched)
    experiment = replace(opened("train.precision=bf16-mixed", "model.language_bits=4"), device=torch.device("cpu"))
    model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    held = [p for p in model.parameters() if hasattr(p, "quant_type")]
    assert len(wide) == len(held) == 14
    assert max(wide) == max(p.numel() * 2 for p in held), "only one layer at a time has its weights unpacked"
    adapters = [p for name, p in model.named_parameters() if ".lora_" in name]
    assert {p.dtype for p in adapters} == {torch.float32}


def test_a_run_that_is_opened_again_answers_with_the_types_that_it_was_evaluated_with(
    nano: Nano, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert nano.here("train", run, "train.precision=bf16-mixed", "train.max_steps=2") == 0
    _, assembled = load_as_left(RunFolder(run), DEVICE)
    assert {p.device.type for p in assembled.model.parameters()} == {"cpu"}
    with arriving() as arrivals:
        place(assembled.model, "bf16-mixed", DEVICE)
    assert arrivals.total == _bytes(assembled.model)
    assert {p.dtype for name, p in assembled.model.named_parameters() if ".lora_" in name} == {torch.float32}
