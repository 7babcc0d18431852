"""medgemma_4b: MedGemma-4B-it; also for google/medgemma-1.5-4b-it as model.weights, which was trained on CT slices."""

from __future__ import annotations

from transformers import Gemma3Config

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "MedGemma-4B-it: SigLIP so400m at 896 pixels + pooling to 256 tokens + Gemma 3 4B",
        "Health AI Developer Foundations terms of use",
        "gemma3",
        hub=HubWeights("google/medgemma-4b-it", gated=True),
        config=architecture,
    )


def architecture() -> Gemma3Config:
    """Returns the configuration at full size: 4.30 billion parameters.

    Source: Sellergren et al. 2025, arXiv 2507.05201; Gemma Team 2025, arXiv 2503.19786, table 1.
    """
    return Gemma3Config(
        text_config={
            "vocab_size": 262208, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
            "sliding_window": 1024,
        },
        vision_config={
            "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
            "image_size": 896, "patch_size": 14, "vision_use_head": False,
        },
    )  # fmt: skip
