"""Tests that weights which stay in their files have the values of weights that are read at once, to the last bit."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.sharding.unread import leaving_weights_unread, read
from medtune.models.tuning.apply import adapt
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from medtune.models.weights.loading_options import DtypeName, Loading
from tests.models.sharding.same_values import TUNING, assert_same, read_later_and_at_once
from tests.models.twins import OF_TRANSFORMERS
from tests.trainer.devices.divided import FULL
from tests.trainer.precision.learning import Case, write_checkpoint

QUICK = ("nano_gemma3", "nano_mllama", "nano_qwen25vl")
WAYS = tuple(product(("float32", "bfloat16"), (torch.float32, torch.bfloat16), ("lora", "full")))
"""The type that is asked for, that of the file, and what learns."""


def _cases() -> list[Any]:
    """Returns every twin with every way: three have all in `make test`, the others one each in `make test-slow`."""

    def marks(name: str, number: int, way: int) -> tuple[pytest.MarkDecorator, ...]:
        if name in QUICK:
            return ()
        return (pytest.mark.slow if number % len(WAYS) == way else pytest.mark.soak,)

    return [
        pytest.param(name, *each, marks=marks(name, number, way))
        for number, name in enumerate(OF_TRANSFORMERS)
        for way, each in enumerate(WAYS)
    ]


@pytest.mark.parametrize(("name", "dtype", "stored", "learns"), _cases())
def test_a_checkpoint_of_transformers(
    name: str, dtype: DtypeName, stored: torch.dtype, learns: str, tmp_path: Path
) -> None:
    # Values that float32 alone can hold, so that each rounding shows.
    write_checkpoint(Case(name, stored, stored), tmp_path)
    loading, tuning = Loading(weights=str(tmp_path), dtype=dtype), TUNING if learns == "lora" else FULL
    assert_same(*read_later_and_at_once(lambda: zoo_entry(name).assemble(0, loading), "bf16-mixed", tuning))


def test_a_weight_takes_the_place_of_its_file_only_when_it_is_read(tmp_path: Path) -> None:
    write_checkpoint(Case("nano_qwen25vl", torch.float32, torch.float32), tmp_path)
    loading = Loading(weights=str(tmp_path), dtype="bfloat16")
    with leaving_weights_unread():
        model = zoo_entry("nano_qwen25vl").assemble(0, loading).model
    parameter = next(p for p in model.parameters() if p.dim() == 2)
    assert parameter.dtype == torch.float32, "the tensor of the file"
    assert read(parameter).dtype == torch.bfloat16
    assert parameter.dtype == torch.float32, "it stays as it is"


def test_trained_weights_replace_those_that_were_not_read(tmp_path: Path) -> None:
    trained = zoo_entry("nano_pocket").assemble(0).model
    adapt(trained, [TUNING], seed=1)
    learnt = set(trainable_names(trained))
    tensors = {name: p.detach() + 1 for name, p in trained.named_parameters() if name in learnt}
    write_trained(tmp_path / "best.safetensors", tensors, about={})
    with leaving_weights_unread():
        model = zoo_entry("nano_pocket").assemble(0).model
        adapt(model, [TUNING], seed=0)
        load_trained(model, tmp_path / "best.safetensors")
    for name, parameter in model.named_parameters():
        if name in learnt:
            assert torch.equal(read(parameter), tensors[name]), name
            assert not torch.equal(parameter, tensors[name]), "it was read before anyone asked for it"
