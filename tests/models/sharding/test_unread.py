"""Tests that weights which stay in their files have the values of weights that are read at once, to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.sharding.unread import leaving_weights_unread, read
from medtune.models.tuning.apply import adapt
from medtune.models.tuning.plan import Precision, Tuning
from medtune.models.weights.checkpoint import load_trained, trainable_names, write_trained
from medtune.models.weights.loading_options import DtypeName, Loading
from tests.models.sharding.same_values import TUNING, assert_same, read_later_and_at_once
from tests.models.twins import OF_TRANSFORMERS
from tests.trainer.devices.divided import FULL
from tests.trainer.precision.learning import Case, write_checkpoint

QUICK = ("nano_gemma3", "nano_mllama", "nano_qwen25vl")


@pytest.mark.parametrize("tuning", [TUNING, FULL], ids=["lora", "full"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("dtype", "precision"), [("float32", "bf16-mixed"), ("bfloat16", "bf16-mixed")])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in OF_TRANSFORMERS]
)
def test_a_checkpoint_of_transformers(
    name: str, dtype: DtypeName, precision: Precision, stored: torch.dtype, tuning: Tuning, tmp_path: Path
) -> None:
    # Values that float32 alone can hold, so that each rounding shows.
    write_checkpoint(Case(name, torch.float32 if stored == torch.float32 else stored, stored), tmp_path)
    loading = Loading(weights=str(tmp_path), dtype=dtype)
    assert_same(*read_later_and_at_once(lambda: zoo_entry(name).assemble(0, loading), precision, tuning))


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
