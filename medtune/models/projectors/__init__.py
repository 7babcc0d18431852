"""Projectors, which turn a tower's features into tokens of the language model's width. Each architecture is one module.

A module that defines `def projector(over: Tower) -> Projector` is a projector that `model.projector` may name; the
module's name is the projector's name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from medtune.data import catalog
from medtune.models.towers import Tower


@dataclass(frozen=True, slots=True)
class Projector:
    """A projector that can be built.

    Attributes:
        build: Returns the projector with random weights for an embedding width E, a module that maps the tower's
            features (B, *grid, width) to tokens (B, num_tokens, E).
        num_tokens: Number of tokens of one media item.
    """

    build: Callable[[int], nn.Module]
    num_tokens: int


def find_projector(name: str, over: Tower) -> Projector:
    try:
        return catalog.made(catalog.PROJECTORS, name, Projector, over)
    except ValueError as error:
        raise ValueError(f"model.projector: {error}") from error
