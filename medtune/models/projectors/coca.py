"""CT-CHAT's projector: learned queries that attend to all features, then a norm and a two-layer MLP.

Shape legend: B volumes, N features, D feature width, Q queries, E embedding width.

Source: attentional pooling of CoCa (Yu et al., arXiv 2205.01917) with the sizes of CT-CHAT@33c9b973, no code taken
(CC-BY-NC-SA); checked against tests/golden/ctchat-projector.json.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medtune.models.projectors import Projector
from medtune.models.towers import Tower


@dataclass(frozen=True, slots=True)
class CoCaConfig:
    """The sizes of the projector; the defaults are CT-CHAT's."""

    width: int = 512
    heads: int = 8
    queries: int = 256  # Number of learned queries, which is the number of tokens.
    mlp_layers: int = 2


class AttentionPool(nn.Module):
    """A pooling that maps any number of features (B, N, D) to a fixed number of mixtures (B, Q, D)."""

    def __init__(self, config: CoCaConfig) -> None:
        super().__init__()
        self.query_QD = nn.Parameter(torch.randn(config.queries, config.width))
        self.norm_query = nn.LayerNorm(config.width)
        self.norm_features = nn.LayerNorm(config.width)
        self.attention = nn.MultiheadAttention(config.width, config.heads, bias=False, batch_first=True)

    def forward(self, features_BND: Tensor) -> Tensor:
        """Returns one mixture of the features per query, (B, Q, D)."""
        query_BQD = self.norm_query(self.query_QD).expand(len(features_BND), -1, -1)
        known_BND = self.norm_features(features_BND)
        pooled_BQD: Tensor = self.attention(query_BQD, known_BND, known_BND, need_weights=False)[0]
        return pooled_BQD


class CoCaProjector(nn.Module):
    """A projector that maps features (B, ..., D) to tokens (B, Q, E)."""

    def __init__(self, config: CoCaConfig, embedding_width: int) -> None:
        super().__init__()
        self.pool = AttentionPool(config)
        self.norm = nn.LayerNorm(config.width)
        parts: list[nn.Module] = [nn.Linear(config.width, embedding_width)]
        for _ in range(config.mlp_layers - 1):
            parts += [nn.GELU(), nn.Linear(embedding_width, embedding_width)]
        self.mlp = nn.Sequential(*parts)

    def forward(self, features: Tensor) -> Tensor:
        tokens_BQE: Tensor = self.mlp(self.norm(self.pool(features.flatten(1, -2))))
        return tokens_BQE


def projector(over: Tower) -> Projector:
    """Returns a small projector of this kind, which can be trained from random weights, for a tower's features."""
    config = CoCaConfig(over.width, heads=4, queries=32)
    return Projector(lambda width: CoCaProjector(config, width), config.queries)
