"""The contract of a tower: its features have the shape that it states, and every parameter gets a gradient."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from medtune.models.towers import Tower, find_tower
from medtune.trainer.contracts.contract import Contract

SIZE = (16, 16, 8)
"""The size, in voxels, of the volume that a tower is tried on."""
BATCH = 2


@contextmanager
def opened(name: str) -> Iterator[Tower]:
    """Gives the tower of a name for a small volume."""
    yield find_tower(name, SIZE)


def its_features_are_as_many_as_it_says(tower: Tower) -> Iterator[str]:
    """Complains about features that do not have the shape (batch, *grid, width) or are not finite."""
    torch.manual_seed(0)
    features = tower.build()(torch.rand(BATCH, 1, *SIZE))
    wanted = (BATCH, *tower.grid, tower.width)
    if tuple(features.shape) != wanted:
        yield f"the features have the shape {tuple(features.shape)}, wanted (batch, *grid, width) = {wanted}"
    if not bool(torch.isfinite(features).all()):
        yield "some features are not finite numbers; check the initial weights"


def every_parameter_learns(tower: Tower) -> Iterator[str]:
    """Complains about a parameter that gets no gradient."""
    torch.manual_seed(0)
    module = tower.build()
    module(torch.rand(BATCH, 1, *SIZE)).square().mean().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None:
            yield f"the parameter {name} gets no gradient; use it in `forward`, or leave it out"


CONTRACT = Contract(opened, (its_features_are_as_many_as_it_says, every_parameter_learns))
