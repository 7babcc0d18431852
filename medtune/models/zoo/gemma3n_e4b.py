"""gemma3n_e4b: Gemma 3n E4B, instruction-tuned."""

from __future__ import annotations

from transformers import Gemma3nConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.generic.loading import generic_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return generic_entry(
        "Gemma 3n E4B: MobileNet-V5 of 768 pixels + projection + a decoder with embeddings for each layer",
        "Gemma terms of use",
        hub=HubWeights("google/gemma-3n-E4B-it", gated=True),
        config=architecture,
    )


def architecture() -> Gemma3nConfig:
    """Returns the configuration at full size: 7.82 billion parameters, 4 billion of them at work for a token.

    Source: transformers' defaults, which are those of google/gemma-3n-E4B-it.
    """
    return Gemma3nConfig()
