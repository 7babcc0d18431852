"""RadFM's projector: a perceiver resampler, one linear layer, and a learned tag before and after each scan.

Shape legend: B scans, N features, D feature width, Q latents, E embedding width.

Source: chaoyi-wu/RadFM@9efba84c (resampler of the Flamingo kind, arXiv 2204.14198); checked against
tests/golden/radfm-vision.json.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import IdeficsConfig
from transformers.models.idefics.perceiver import IdeficsPerceiverResampler

from medtune.models.projectors import Projector
from medtune.models.towers import Tower

NUM_TAGS = 2


@dataclass(frozen=True, slots=True)
class PerceiverConfig:
    """The sizes of the projector; the defaults are RadFM's."""

    width: int = 768
    depth: int = 6
    heads: int = 8
    head_width: int = 64
    latents: int = 32  # Number of learned latents, which is the number of tokens without tags.
    tags: bool = True  # Whether each scan's tokens stand between two learned tags, RadFM's `<image>` and `</image>`.

    @property
    def num_tokens(self) -> int:
        """The number of tokens of a scan, its tags included."""
        return self.latents + NUM_TAGS * self.tags


def resampler(config: PerceiverConfig) -> IdeficsPerceiverResampler:
    """Returns a resampler with random weights that maps features_BND to latents_BQD; its hidden layers use GELU."""
    idefics = IdeficsConfig(vision_config={"embed_dim": config.width})
    module = IdeficsPerceiverResampler(
        idefics, config.width, config.depth, config.heads, config.head_width, config.latents
    )
    for depth in range(config.depth):
        module.get_submodule(f"blocks.{depth}.1").act = nn.GELU()
    return module


class PerceiverProjector(nn.Module):
    """A projector that maps features (B, ..., D) to tokens (B, num_tokens, E): 34 in RadFM, or 32 without tags."""

    def __init__(self, config: PerceiverConfig, embedding_width: int) -> None:
        super().__init__()
        self.resampler = resampler(config)
        self.linear = nn.Linear(config.width, embedding_width)
        self.tags = nn.Parameter(torch.randn(NUM_TAGS, embedding_width)) if config.tags else None

    def forward(self, features: Tensor) -> Tensor:
        """Returns tokens of shape (B, Q, E), or (B, 1 + Q + 1, E) with tags."""
        tokens_BQE: Tensor = self.linear(self.resampler(features.flatten(1, -2)))
        if self.tags is None:
            return tokens_BQE
        opening_B1E, closing_B1E = self.tags.to(tokens_BQE.dtype).expand(len(tokens_BQE), -1, -1).split(1, dim=1)
        return torch.cat([opening_B1E, tokens_BQE, closing_B1E], dim=1)


def projector(over: Tower) -> Projector:
    """Returns a small projector of this kind, which can be trained from random weights, for a tower's features."""
    config = PerceiverConfig(over.width, depth=2, heads=4, head_width=24, latents=32)
    return Projector(lambda width: PerceiverProjector(config, width), config.num_tokens)
