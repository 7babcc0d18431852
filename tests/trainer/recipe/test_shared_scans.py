"""Tests that recipes of CT models learn as many questions a step as the papers, and that those of a scan share it."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Stage
from tests.models.twins import layout, shown


class Asked(NamedTuple):
    """A scan with the questions that are asked about it in one pass."""

    scan: int
    layouts: Sequence[Layout]


PUBLISHED = {
    "m3d_llama2_ctlesionvqa": [32],
    "m3d_phi3_ctlesionvqa": [32],
    "merlin_ctlesionvqa": [32],
    "radfm_ctlesionvqa": [32],
    "ct_chat_ctlesionvqa": [128],
    "m3d_llama2_ctlesionvqa_public": [64, 32],
    "m3d_phi3_ctlesionvqa_public": [64, 32],
    "merlin_ctlesionvqa_public": [32],
    "radfm_ctlesionvqa_public": [32],
    "ct_chat_ctlesionvqa_public": [48, 144],
}
"""Questions of an optimizer step in each stage, by the paper or the public code that the recipe's header names."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_step_learns_the_questions_of_the_source_and_those_of_a_scan_share_it(name: str) -> None:
    recipe = read_recipe(name, [])
    shared = recipe.train.group_questions
    assert shared is not None
    assert shared > 1
    assert [stage.batch_size * shared for stage in recipe.stages] == PUBLISHED[name]
    for stage in recipe.stages:
        assert stage.batch_size % (stage.micro_batch_size * recipe.train.devices) == 0, "a device would idle"


def _learning(name: str, stage: Stage) -> Assembled:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, stage.tuning, seed=0)
    torch.manual_seed(0)
    # Adapters begin at zero, where most gradients are zero and agree with anything.
    for each, parameter in assembled.model.named_parameters():
        if ".lora_B." in each:
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.eval()
    return assembled


def _gradients(assembled: Assembled, name: str, passes: Sequence[Sequence[Asked]]) -> dict[str, Tensor]:
    """Returns the loss and the gradients of the step of these passes, each of them some scans with questions."""
    model = assembled.model
    model.zero_grad()
    targets = sum(one.num_targets for each in passes for asked in each for one in asked.layouts)
    losses = []
    for each in passes:
        trees = [[Shown(grow(asked.layouts, range(len(asked.layouts))), number)] for number, asked in enumerate(each)]
        encoded = model.encode(shown(assembled, name, *(asked.scan for asked in each)))
        loss = -model(pack(trees, pad_id=assembled.family.pad_id), encoded).logprobs_T.sum() / targets
        loss.backward()
        losses.append(loss.detach())
    learnt = {each: p.grad.clone() for each, p in model.named_parameters() if p.grad is not None}
    return {"loss": torch.stack(losses).sum(), **learnt}


def _apart(mine: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference relative to the largest gradient of a parameter."""
    assert mine.keys() == other.keys()
    return max(float((mine[n] - other[n]).abs().max() / other[n].abs().max().clamp(min=1e-4)) for n in mine)


@pytest.mark.parametrize("name", ["m3d_llama2", "m3d_phi3", "merlin", "radfm", "ct_chat"])
def test_a_step_over_shared_scans_is_the_step_over_its_questions_one_by_one(name: str) -> None:
    recipe = read_recipe(f"{name}_ctlesionvqa", [])
    stage, shared, twin = recipe.stages[0], recipe.train.group_questions or 0, f"nano_{name}"
    assembled = _learning(twin, stage)
    answers = ("head", "arm", "leg", "eye")[:shared]
    scans = [
        Asked(scan, [layout(assembled, twin, answer, f"Which part {scan} {answer}?") for answer in answers])
        for scan in range(2)
    ]
    together = _gradients(assembled, twin, [scans] if stage.micro_batch_size > 1 else [[each] for each in scans])
    alone = [[Asked(each.scan, [one])] for each in scans for one in each.layouts]
    assert _apart(together, _gradients(assembled, twin, alone)) < 2e-4
    swapped = [[Asked(1 - each.scan, [one])] for each in scans for one in each.layouts]
    assert _apart(together, _gradients(assembled, twin, swapped)) > 1e-2
