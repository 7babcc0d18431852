"""Tests the schedules of the learning rate against closed forms and the schedules of transformers."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_cosine_with_min_lr_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

from medtune.models.tuning.apply import share_of_peak
from medtune.models.tuning.plan import ScheduleName

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
