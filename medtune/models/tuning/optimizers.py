"""Builds the optimizer that a recipe names."""

import math
from typing import Any

import torch

from medtune.models.tuning.plan import OptimizerName, ScheduleName


def build_optimizer(name: OptimizerName, groups: list[dict[str, Any]], *, scaled_loss: bool) -> torch.optim.Optimizer:
    """Returns the optimizer for parameter groups that state their own learning rates and weight decays.

    Args:
        name: AdamW, or AdamW with moments in 8 bits.
        groups: The groups that `parameters_by_part` returns.
        scaled_loss: Whether the gradients are scaled (16-mixed). They have to be unscaled, measured and clipped before
            the step, so the fused optimizer, which would unscale them itself, is not used.

    Source: Loshchilov & Hutter 2019, arXiv 1711.05101; Dettmers et al. 2022, arXiv 2110.02861.
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, fused=not scaled_loss)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise ValueError(
            "train.optimizer adamw_8bit needs bitsandbytes: pip install 'medtune[bitsandbytes]'"
        ) from error
    optimizer: torch.optim.Optimizer = AdamW8bit(groups)
    return optimizer


def share_of_peak(step: int, *, schedule: ScheduleName, max_steps: int, warmup_steps: int, floor: float) -> float:
    """Returns the learning rate of a step as a share of its peak.

    The rate rises in equal steps, so that the first step after the warm-up has the peak, and the first step of all is
    not lost with a rate of zero. It would reach the floor at the step after the last one.

    Args:
        step: The number of optimizer steps before this one.
        schedule: The form of the curve after the warm-up.
        max_steps: The number of optimizer steps of the stage.
        warmup_steps: The number of steps in which the rate rises.
        floor: The share of the peak to which the rate falls, from 0 to 1; a constant rate does not fall.

    Example:
        >>> [share_of_peak(step, schedule="linear", max_steps=5, warmup_steps=1, floor=0.5) for step in range(5)]
        [0.5, 1.0, 0.875, 0.75, 0.625]

    Source: Loshchilov & Hutter 2017, arXiv 1608.03983, eq. 5, for the cosine.
    """
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    progress = min(1.0, (step - warmup_steps) / max(1, max_steps - warmup_steps))
    if schedule == "cosine":
        left = 0.5 * (1.0 + math.cos(math.pi * progress))
    else:
        left = 1.0 if schedule == "constant" else 1.0 - progress
    return floor + (1.0 - floor) * left
