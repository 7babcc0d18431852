"""The schedules of the learning rate: a linear warm-up, and then a cosine, a straight line or a constant."""

import math

from medtune.models.tuning.plan import ScheduleName


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
