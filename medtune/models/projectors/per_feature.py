"""A projector that applies a module to every feature by itself, so that there are as many tokens as features.

Shape legend: B volumes, N features, D feature width, E embedding width.
"""

from torch import Tensor, nn


class PerFeature(nn.Module):
    """A projector that maps features (B, ..., D) to tokens (B, N, E), in an order whose slowest axis is the first."""

    def __init__(self, each: nn.Module) -> None:
        super().__init__()
        self.each = each

    def forward(self, features: Tensor) -> Tensor:
        tokens_BNE: Tensor = self.each(features.flatten(1, -2))
        return tokens_BNE
