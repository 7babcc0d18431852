"""Builds the optimizer that a recipe names."""

from typing import Any

import torch

from medtune.models.tuning.plan import OptimizerName


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
