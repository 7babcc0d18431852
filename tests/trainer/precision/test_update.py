"""Tests that a checkpoint in 16 bits learns what the same weights in a float32 file learn, under every strategy.

The update of 50 steps at a rate of 1e-5 is compared with that of a run on one device, whose file holds the same values
in float32. Both compute in bf16-mixed, so that the updates can differ only through the types in which weights,
gradients and moments are held, and through the way in which ranks share the work. Adapters in bfloat16, as peft makes
them on such a base, miss the update by half and more, because most steps are smaller than the spacing of their numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch

from medtune.trainer.recipe.schema import StrategyName
from tests.models.twins import EVERY_TWIN
from tests.trainer.precision.learning import Case, apart, learnt, learnt_by_two

TYPES = (torch.bfloat16, torch.float16)
LARGEST = 1e-3


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in EVERY_TWIN])
@pytest.mark.parametrize("values", TYPES)
def test_one_device_learns_as_from_a_float32_file(name: str, values: torch.dtype) -> None:
    update = learnt(Case(name, values, values))
    assert all(change.any() for each, change in update.items() if ".lora_B" in each) or "nn_" in name
    assert apart(update, learnt(Case(name, values, torch.float32))) < LARGEST


def test_a_few_steps_on_one_device_and_with_masters_in_16_bits() -> None:
    case = Case("nano_pocket", torch.bfloat16, torch.bfloat16)
    wanted = learnt(case._replace(stored=torch.float32), steps=10)
    assert apart(learnt(case, steps=10), wanted) < LARGEST
    assert apart(learnt(case, steps=10, narrow_masters=torch.bfloat16), wanted) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [each for each in get_args(StrategyName) if each != "auto"])
def test_two_processes_learn_as_one_does_from_a_float32_file(strategy: StrategyName, tmp_path: Path) -> None:
    cases = [
        Case("nano_pocket", torch.bfloat16, torch.bfloat16),
        Case("nano_qwen25vl", torch.float16, torch.float16),
        Case("nano_merlin", torch.float16, torch.float16),
    ]
    found = learnt_by_two(cases, tmp_path, strategy=strategy, precision="bf16-mixed")
    for case in cases:
        assert apart(found[case], learnt(case._replace(stored=torch.float32))) < LARGEST, case.name
