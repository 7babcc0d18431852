"""Makes the optimizer of a tuning plan: groups of parameters by part, AdamW, and the schedule of its learning rate."""

import math
from typing import Any

import torch
from torch import nn

from medtune.models.contract import Model, parameters_of_parts
from medtune.models.tuning.apply import LENGTHS, B
from medtune.models.tuning.plan import OptimizerName, ScheduleName, Tuning


def parameters_by_part(model: Model, tuning: Tuning, *, weight_decay: float) -> list[dict[str, Any]]:
    """Returns AdamW's parameter groups: for each part of the model, matrices with weight decay and vectors without.

    Where LoRA's B has a rate of its own, B and DoRA's lengths have groups of their own, "language_B" and
    "language_B_vectors".
    """
    groups: list[dict[str, Any]] = []
    own = parameters_of_parts(model)
    for part, how in tuning.parts().items():
        ratio = how.lora.lr_ratio if how.mode == "lora" else 1.0
        found: dict[tuple[bool, bool], list[nn.Parameter]] = {}
        for name, parameter in own[part]:
            if parameter.requires_grad:
                faster = ratio != 1.0 and (B in name or LENGTHS in name)
                # The lengths of a convolution's rows have as many axes as its weights.
                is_vector = LENGTHS in name or len(getattr(parameter, "ds_shape", parameter.shape)) <= 1
                found.setdefault((faster, is_vector), []).append(parameter)
        groups += [
            {
                "name": part + ("_B" if faster else "") + ("_vectors" if is_vector else ""),
                "params": chosen,
                "lr": how.lr * (ratio if faster else 1.0),
                "weight_decay": 0.0 if is_vector else weight_decay,
            }
            for (faster, is_vector), chosen in sorted(found.items(), key=lambda each: each[0])
        ]
    return groups


def build_optimizer(name: OptimizerName, groups: list[dict[str, Any]], *, scaled_loss: bool) -> torch.optim.Optimizer:
    """Returns the optimizer for parameter groups that state their own learning rates and weight decays.

    Args:
        scaled_loss: Whether the gradients are scaled (16-mixed). They have to be unscaled, measured and clipped before
            the step, so the fused optimizer, which would unscale them itself, is not used.

    Source: Loshchilov & Hutter 2019, arXiv 1711.05101; Dettmers et al. 2022, arXiv 2110.02861.
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, fused=not scaled_loss)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise ValueError("train.optimizer adamw_8bit needs bitsandbytes: pip install 'bitsandbytes>=0.49'") from error
    optimizer: torch.optim.Optimizer = AdamW8bit(groups)
    return optimizer


def share_of_peak(step: int, *, schedule: ScheduleName, max_steps: int, warmup_steps: int, floor: float) -> float:
    """Returns the learning rate of a step as a share of its peak.

    The rate rises in equal steps, so that the first step after the warm-up has the peak, and the first step of all is
    not lost with a rate of zero. It would reach the floor at the step after the last one.

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
