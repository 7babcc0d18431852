"""The contract of a projector: it returns as many tokens as it states, and passes gradients to itself and the tower."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from medtune.models.projectors import Projector, find_projector
from medtune.models.towers import Tower
from medtune.trainer.contracts.contract import Contract

OVER = Tower(nn.Identity, width=24, grid=(4, 4, 4))
"""The tower that a projector is tried with."""
WIDTH = 40
BATCH = 2


@contextmanager
def opened(name: str) -> Iterator[Projector]:
    """Gives the projector of a name for a small grid of features."""
    yield find_projector(name, OVER)


def its_tokens_are_as_many_as_it_says(projector: Projector) -> Iterator[str]:
    """Complains about tokens that do not have the shape (batch, num_tokens, width) or are not finite."""
    torch.manual_seed(0)
    tokens = projector.build(WIDTH)(torch.rand(BATCH, *OVER.grid, OVER.width))
    wanted = (BATCH, projector.num_tokens, WIDTH)
    if tuple(tokens.shape) != wanted:
        yield (
            f"features of the shape {(BATCH, *OVER.grid, OVER.width)} give tokens of the shape {tuple(tokens.shape)}, "
            f"wanted (batch, num_tokens, embedding width) = {wanted}"
        )
    if not bool(torch.isfinite(tokens).all()):
        yield "some tokens are not finite numbers; check the initial weights"


def gradients_reach_it_and_the_tower(projector: Projector) -> Iterator[str]:
    """Complains if a parameter or the features of the tower get no gradient."""
    torch.manual_seed(0)
    module = projector.build(WIDTH)
    features = torch.rand(BATCH, *OVER.grid, OVER.width, requires_grad=True)
    module(features).square().mean().backward()
    if features.grad is None or not bool(features.grad.any()):
        yield "no gradient reaches the tower's features; do not detach them"
    for name, parameter in module.named_parameters():
        if parameter.grad is None:
            yield f"the parameter {name} gets no gradient; use it in `forward`, or leave it out"


CONTRACT = Contract(opened, (its_tokens_are_as_many_as_it_says, gradients_reach_it_and_the_tower))
