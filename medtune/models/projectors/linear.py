"""Merlin's projector: one linear layer that is applied to every feature.

A projector that applies a module to every feature by itself, so that there are as many tokens as features.

Shape legend: B volumes, N features, D feature width, E embedding width.
"""

import math

from torch import Tensor, nn

from medtune.models.projectors import Projector
from medtune.models.towers import Tower


class PerFeature(nn.Module):
    """A projector that maps features (B, ..., D) to tokens (B, N, E), in an order whose slowest axis is the first."""

    def __init__(self, each: nn.Module) -> None:
        super().__init__()
        self.each = each

    def forward(self, features: Tensor) -> Tensor:
        tokens_BNE: Tensor = self.each(features.flatten(1, -2))
        return tokens_BNE


def linear(feature_width: int, embedding_width: int) -> PerFeature:
    """Returns a projector of one linear layer with random weights."""
    return PerFeature(nn.Linear(feature_width, embedding_width))


def projector(over: Tower) -> Projector:
    """Returns the projector for a tower's features."""
    return Projector(lambda width: linear(over.width, width), math.prod(over.grid))
