"""Tests that a checkpoint in 16 bits learns what the same weights in a float32 file learn, under every strategy.

The update of 10 or 50 steps at a rate of 1e-5 is compared with that of a run on one device, whose file holds the same
values in float32. Both compute in bf16-mixed, so that the updates can differ only through the types in which weights,
gradients and moments are held, and through the way in which ranks share the work. Adapters in bfloat16, as peft makes
them on such a base, miss the update by half and more, because most steps are smaller than the spacing of their numbers.
"""

from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.trainer.recipe.schema import StrategyName
from tests.models.twins import EVERY_TWIN
from tests.trainer.conftest import Nano
from tests.trainer.precision.learning import STEPS, Case, Update, apart, learnt, learnt_by_two, write_checkpoint

TYPES = (torch.bfloat16, torch.float16)
LARGEST = 1e-3
CASES = (
    Case("nano_pocket", torch.bfloat16, torch.bfloat16),
    Case("nano_qwen25vl", torch.float16, torch.float16),
    Case("nano_merlin", torch.float16, torch.float16),
    Case("nano_ct_chat", torch.bfloat16, torch.bfloat16),
)
"""Both types, models of three modules and of transformers, and towers over images, volumes and codes of volumes."""
FEW = 5
"""Masters in 16 bits miss the update by a third after few steps already, as a test below shows."""


@cache
def from_float32(case: Case, steps: int = STEPS) -> Update:
    """Returns what one device learns from the same values in a float32 file."""
    return learnt(case._replace(stored=torch.float32), steps=steps)


EVERY_CASE = [Case(name, values, values) for name in EVERY_TWIN for values in TYPES]


@pytest.mark.parametrize(
    ("case", "steps"),
    [
        # The first one is below, in the plain suite; the towers over volumes and codes are in the soak.
        pytest.param(CASES[1], FEW, id=f"few-{CASES[1].file}", marks=pytest.mark.slow),
        *(pytest.param(each, STEPS, id=each.file, marks=pytest.mark.soak) for each in EVERY_CASE),
    ],
)
def test_one_device_learns_as_from_a_float32_file(case: Case, steps: int) -> None:
    update = learnt(case, steps=steps)
    assert all(change.any() for each, change in update.items() if ".lora_B" in each) or "nn_" in case.name
    assert apart(update, from_float32(case, steps)) < LARGEST


def test_a_few_steps_on_one_device_and_with_masters_in_16_bits() -> None:
    case = Case("nano_pocket", torch.bfloat16, torch.bfloat16)
    wanted = from_float32(case, FEW)
    assert apart(learnt(case, steps=FEW), wanted) < LARGEST
    assert apart(learnt(case, steps=FEW, narrow_masters=torch.bfloat16), wanted) > 0.3


@pytest.mark.parametrize(
    ("strategy", "cases", "steps"),
    [
        pytest.param("deepspeed_stage_2", CASES[:1], FEW, marks=pytest.mark.slow),
        *(
            pytest.param(each, CASES, STEPS, marks=pytest.mark.soak)
            for each in ("ddp", "deepspeed_stage_1", "deepspeed_stage_2")
        ),
    ],
)
def test_two_processes_learn_as_one_does_from_a_float32_file(
    strategy: StrategyName, cases: tuple[Case, ...], steps: int, tmp_path: Path
) -> None:
    found = learnt_by_two(cases, tmp_path, strategy=strategy, precision="bf16-mixed", steps=steps)
    for case in cases:
        assert apart(found[case], from_float32(case, steps)) < LARGEST, case.name


@pytest.mark.parametrize(
    ("cases", "steps"),
    [
        # That it holds float32 weights beside a checkpoint in 16 bits is seen in the slow suite by the run below.
        pytest.param(CASES[1:2], FEW, marks=pytest.mark.soak, id="one"),
        pytest.param(CASES, STEPS, marks=pytest.mark.soak, id="all"),
    ],
)
def test_zero_3_learns_as_it_does_from_a_float32_file(cases: tuple[Case, ...], steps: int, tmp_path: Path) -> None:
    """Its own runs are compared: it computes linear layers in another way, whose sums in bfloat16 are rounded apart."""
    wide = [case._replace(stored=torch.float32) for case in cases]
    found = learnt_by_two([*cases, *wide], tmp_path, strategy="deepspeed_stage_3", precision="bf16-mixed", steps=steps)
    for case, other in zip(cases, wide, strict=True):
        assert apart(found[case], found[other]) < LARGEST, case.name


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["deepspeed_stage_2", "deepspeed_stage_3"])
def test_a_run_from_a_checkpoint_in_bfloat16_keeps_float32_weights(nano: Nano, tmp_path: Path, strategy: str) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    write_checkpoint(Case("nano_qwen25vl", torch.bfloat16, torch.bfloat16), folder)
    run = tmp_path / "run"
    nano.finished(
        "train", run, "model.name=nano_qwen25vl", f"model.weights={folder}", "model.dtype=bfloat16",
        "train.precision=bf16-mixed", f"train.strategy={strategy}", "train.devices=2", "train.max_steps=2",
        "eval.val_questions=2",
    )  # fmt: skip
    tensors = load_file(run / "checkpoints" / "best.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    # Weights that were written from a copy in 16 bits would be the same after rounding to them.
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in tensors.values())
