"""Projectors that map every feature by itself: one linear layer (Merlin), or norm, linear, GELU, linear.

Shape legend: B volumes, N features, D feature width, E embedding width.
"""

from __future__ import annotations

from torch import Tensor, nn


class FlatProjector(nn.Module):
    """Features (B, ..., D) -> tokens (B, N, E), in the grid's own order: its first axis is the slowest."""

    def __init__(self, each: nn.Module) -> None:
        super().__init__()
        self.each = each

    def forward(self, features: Tensor) -> Tensor:
        """Returns tokens_BNE."""
        tokens_BNE: Tensor = self.each(features.flatten(1, -2))
        return tokens_BNE


def linear(feature_width: int, embedding_width: int) -> FlatProjector:
    """Returns one linear layer over every feature, randomly initialised."""
    return FlatProjector(nn.Linear(feature_width, embedding_width))


def mlp(feature_width: int, embedding_width: int) -> FlatProjector:
    """Returns norm, linear, GELU, linear over every feature, randomly initialised."""
    return FlatProjector(
        nn.Sequential(
            nn.LayerNorm(feature_width),
            nn.Linear(feature_width, embedding_width),
            nn.GELU(),
            nn.Linear(embedding_width, embedding_width),
        )
    )
