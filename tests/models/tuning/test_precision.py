"""Tests that bf16-mixed gives finite outputs on every twin, close to those in float32."""

from __future__ import annotations

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import PartTuning, Precision, Tuning
from medtune.models.tuning.precision import set_types, precise
from tests.models.twins import EVERY_TWIN, logprobs

CPU = torch.device("cpu")


def _step(name: str, precision: Precision) -> tuple[torch.Tensor, dict[str, torch.Tensor], set[torch.dtype]]:
    assembled = zoo_entry(name).assemble(0)
    apply_tuning(assembled.model, Tuning(projector=PartTuning("full"), language=PartTuning("lora")), seed=0)
    set_types(assembled.model, precision)
    assembled.model.train()
    with precise(precision, CPU)():
        found = logprobs(assembled, name)
    (-found.sum()).backward()
    gradients = {n: p.grad for n, p in assembled.model.named_parameters() if p.grad is not None}
    return found.detach(), gradients, {p.dtype for p in assembled.model.parameters() if not p.requires_grad}


@pytest.mark.parametrize("name", EVERY_TWIN)
def test_bfloat16_is_finite_and_close_to_float32(name: str) -> None:
    wide, wanted, _ = _step(name, "32-true")
    narrow, found, stored = _step(name, "bf16-mixed")
    assert stored == {torch.bfloat16}
    assert narrow.dtype == torch.float32
    assert narrow.isfinite().all()
    # The bound allows for 8 bits of mantissa in a few layers whose weights have a standard deviation of 0.2.
    assert float((narrow - wide).abs().mean()) < 0.15
    assert found.keys() == wanted.keys()
    assert all(gradient.dtype == torch.float32 and gradient.isfinite().all() for gradient in found.values())
    one, two = (torch.cat([each[n].flatten() for n in sorted(each)]) for each in (found, wanted))
    assert float(torch.nn.functional.cosine_similarity(one, two, dim=0)) > 0.98
