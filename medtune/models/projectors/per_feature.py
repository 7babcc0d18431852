"""A projector that maps every feature of a grid by itself, and so keeps their number.

Shape legend: B volumes, N features, D feature width, E embedding width.
"""

from __future__ import annotations

from torch import Tensor, nn


class PerFeature(nn.Module):
    """Features (B, ..., D) -> tokens (B, N, E), in the grid's own order: its first axis is the slowest."""

    def __init__(self, each: nn.Module) -> None:
        super().__init__()
        self.each = each

    def forward(self, features: Tensor) -> Tensor:
        """Returns tokens_BNE."""
        tokens_BNE: Tensor = self.each(features.flatten(1, -2))
        return tokens_BNE
