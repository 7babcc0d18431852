"""Merlin's projector: one linear layer that is applied to every feature."""

import math

from torch import nn

from medtune.models.projectors import Projector
from medtune.models.projectors.per_feature import PerFeature
from medtune.models.towers import Tower


def linear(feature_width: int, embedding_width: int) -> PerFeature:
    """Returns a projector of one linear layer with random weights."""
    return PerFeature(nn.Linear(feature_width, embedding_width))


def projector(over: Tower) -> Projector:
    """Returns the projector for a tower's features."""
    return Projector(lambda width: linear(over.width, width), math.prod(over.grid))
