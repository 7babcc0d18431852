"""Projectors: visual features -> tokens as wide as the language model's embeddings.

Shape legend: B images, N visual tokens, D feature width, E embedding width.
"""

from __future__ import annotations

from torch import nn


def mlp(feature_width: int, embedding_width: int) -> nn.Sequential:
    """Returns features_BND -> tokens_BNE: layer norm, linear, GELU, linear; randomly initialised."""
    return nn.Sequential(
        nn.LayerNorm(feature_width),
        nn.Linear(feature_width, embedding_width),
        nn.GELU(),
        nn.Linear(embedding_width, embedding_width),
    )
