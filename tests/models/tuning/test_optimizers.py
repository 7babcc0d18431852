"""Tests that AdamW with moments in 8 bits takes nearly the same steps as plain AdamW."""

from typing import Any

import torch
from torch import nn

from medtune.models.tuning.apply import build_optimizer
from medtune.models.tuning.plan import OptimizerName


def _way(name: OptimizerName) -> tuple[list[torch.Tensor], torch.optim.Optimizer]:
    """Takes ten steps towards zero; one group is three times as fast as the other and has weight decay."""
    generator = torch.Generator().manual_seed(0)
    slow, fast = (nn.Parameter(torch.randn(80, 80, generator=generator)) for _ in range(2))
    groups: list[dict[str, Any]] = [
        {"params": [slow], "lr": 1e-2, "weight_decay": 0.0},
        {"params": [fast], "lr": 3e-2, "weight_decay": 0.1},
    ]
    optimizer = build_optimizer(name, groups, scaled_loss=False)
    for _ in range(10):
        optimizer.zero_grad()
        (slow.square().sum() + fast.square().sum()).backward()
        optimizer.step()
    return [slow.detach(), fast.detach()], optimizer


def test_8_bit_moments_go_nearly_the_same_way() -> None:
    (wanted, plain), (found, narrow) = _way("adamw"), _way("adamw_8bit")
    start = torch.randn(80, 80, generator=torch.Generator().manual_seed(0))
    for one, two in zip(found, wanted, strict=True):
        assert float((one - two).norm() / two.norm()) < 0.02
        assert not torch.equal(one, two)
    assert float((wanted[0] - start).norm() / start.norm()) > 0.05
    stored = {
        tensor.dtype for state in narrow.state.values() for key, tensor in state.items() if key.startswith("state")
    }
    assert stored == {torch.uint8}
    assert all(state["exp_avg"].dtype == torch.float32 for state in plain.state.values())


def test_a_scaled_loss_is_not_for_a_fused_optimizer() -> None:
    groups: list[dict[str, Any]] = [{"params": [nn.Parameter(torch.zeros(2))], "lr": 1e-2}]
    assert build_optimizer("adamw", groups, scaled_loss=False).defaults["fused"]
    assert not build_optimizer("adamw", groups, scaled_loss=True).defaults["fused"]
