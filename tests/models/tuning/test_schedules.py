"""Tests the schedules of the learning rate against closed forms and the schedules of transformers."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_cosine_with_min_lr_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

from medtune.models.tuning.optimizer import build_optimizer, share_of_peak
from medtune.models.tuning.plan import OptimizerName, ScheduleName

STEPS, WARMUP = 20, 4


def shares(schedule: ScheduleName, *, warmup: int = WARMUP, floor: float = 0.0) -> list[float]:
    return [
        share_of_peak(step, schedule=schedule, max_steps=STEPS, warmup_steps=warmup, floor=floor)
        for step in range(STEPS)
    ]


def of_transformers(make: Callable[[SGD], LambdaLR]) -> list[float]:
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, found = make(optimizer), []
    for _ in range(STEPS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("schedule", "floor", "make"),
    [
        ("cosine", 0.0, lambda optimizer: get_cosine_schedule_with_warmup(optimizer, WARMUP, STEPS)),
        (
            "cosine",
            0.1,
            lambda optimizer: get_cosine_with_min_lr_schedule_with_warmup(optimizer, WARMUP, STEPS, min_lr_rate=0.1),
        ),
        ("linear", 0.0, lambda optimizer: get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)),
        ("constant", 0.0, lambda optimizer: get_constant_schedule_with_warmup(optimizer, WARMUP)),
    ],
)
def test_after_the_warm_up_the_curve_is_that_of_transformers(
    schedule: ScheduleName, floor: float, make: Callable[[SGD], LambdaLR]
) -> None:
    assert shares(schedule, floor=floor)[WARMUP:] == pytest.approx(of_transformers(make)[WARMUP:])


def test_warm_up_rises_in_equal_steps_and_loses_no_step() -> None:
    for schedule in ("cosine", "linear", "constant"):
        assert shares(schedule)[: WARMUP + 1] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
        assert shares(schedule, warmup=0)[0] == 1.0


@pytest.mark.parametrize("floor", [0.0, 0.25, 1.0])
def test_closed_forms(floor: float) -> None:
    done = [step / STEPS for step in range(STEPS)]
    line = [floor + (1 - floor) * (1 - part) for part in done]
    cosine = [floor + (1 - floor) * (1 + math.cos(math.pi * part)) / 2 for part in done]
    assert shares("linear", warmup=0, floor=floor) == pytest.approx(line)
    assert shares("cosine", warmup=0, floor=floor) == pytest.approx(cosine)
    assert min(shares("cosine", floor=floor)[WARMUP:]) >= floor


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
