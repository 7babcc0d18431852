"""The block `log` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LogBlock:
    """What is logged where; metrics.csv is always written.

    Attributes:
        wandb: auto is online where a key is set and offline elsewhere.
        project: On W&B.
        every_steps: Optimizer steps between points of the loss curve.
        images: Whether pictures and free texts of single cases go to W&B; auto is for simulated data alone.
    """

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    project: str = "medtune"
    every_steps: int = 1
    images: Literal["auto", "always", "never"] = "auto"
