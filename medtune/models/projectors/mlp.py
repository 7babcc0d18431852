"""A projector that applies a norm and a two-layer MLP with GELU to every feature."""

import math

from torch import nn

from medtune.models.projectors import Projector
from medtune.models.projectors.linear import PerFeature
from medtune.models.towers import Tower


def mlp(feature_width: int, embedding_width: int) -> PerFeature:
    """Returns a projector of a norm, a linear layer, GELU and a linear layer with random weights."""
    return PerFeature(
        nn.Sequential(
            nn.LayerNorm(feature_width),
            nn.Linear(feature_width, embedding_width),
            nn.GELU(),
            nn.Linear(embedding_width, embedding_width),
        )
    )


def projector(over: Tower) -> Projector:
    """Returns the projector for a tower's features."""
    return Projector(lambda width: mlp(over.width, width), math.prod(over.grid))
