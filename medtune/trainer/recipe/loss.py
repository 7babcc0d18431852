"""The block `train.loss` of a recipe."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LossSettings:
    """What a training lowers.

    Attributes:
        name: Name of the loss. See `medtune list losses`.
        settings: The settings of that loss, by name; those that are left out keep its defaults.
    """

    name: str = "cross_entropy"
    settings: dict[str, Any] = field(default_factory=dict)
