"""Tests that recomputed activations give the same gradients with less memory, also for a frozen language model."""

from typing import Any

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.tuning.apply import apply_tuning, recompute_activations
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from tests.models.twins import EVERY_TWIN, layout, row_each, seen

LEARNING = {
    "lora": Tuning(language=PartTuning("lora", lora=Lora(dropout=0.2))),
    "full": Tuning(language=PartTuning("full")),
    "alignment": Tuning(language=PartTuning("frozen")),
}
QUICK = ("nano_pocket", "nano_qwen25vl")


def _cases() -> list[Any]:
    """Returns every twin with every way to learn: two have all in `make test`, and the others one of the three each."""
    ways = list(LEARNING)
    return [
        pytest.param(name, how, marks=() if name in QUICK or ways[number % 3] == how else pytest.mark.soak)
        for number, name in enumerate(EVERY_TWIN)
        for how in ways
    ]


def _step(name: str, assembled: Assembled) -> tuple[dict[str, torch.Tensor], int]:
    """Returns the gradients of one backward pass and the number of bytes that were kept for it."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    laid = row_each(assembled, [layout(assembled, name, question="Plane? " * 20)], [0])
    encoded = seen(assembled, name, 0)
    torch.manual_seed(2)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = -assembled.model(laid, encoded).logprobs_T.sum()
    loss.backward()
    model = assembled.model
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, sum(kept.values())


@pytest.mark.parametrize(("name", "how"), _cases())
def test_gradients_are_the_same_and_less_is_kept(name: str, how: str) -> None:
    plain, sparing = zoo_entry(name).assemble(0), zoo_entry(name).assemble(0)
    for assembled in (plain, sparing):
        apply_tuning(assembled.model, LEARNING[how], seed=0)
    recompute_activations(sparing.model)
    plain.model.train()
    sparing.model.train()
    (wanted, most), (found, least) = _step(name, plain), _step(name, sparing)
    assert found.keys() == wanted.keys()
    assert found
    for each, gradient in wanted.items():
        torch.testing.assert_close(found[each], gradient, rtol=1e-5, atol=1e-6)
    assert least < 0.8 * most


def test_evaluation_recomputes_nothing() -> None:
    assembled = zoo_entry("nano_pocket").assemble(0)
    apply_tuning(assembled.model, LEARNING["lora"], seed=0)
    recompute_activations(assembled.model)
    assembled.model.train()
    assembled.model.eval()
    assert not any(module.training for module in assembled.model.modules())
