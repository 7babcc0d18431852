"""smolvlm2_2b: SmolVLM2-2.2B-Instruct, whose processor needs the package num2words."""

from __future__ import annotations

from transformers import SmolVLMConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.generic.loading import generic_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return generic_entry(
        "SmolVLM2-2.2B-Instruct: SigLIP in tiles of 384 pixels + projector + SmolLM2-1.7B; needs pip install num2words",
        "Apache-2.0",
        hub=HubWeights("HuggingFaceTB/SmolVLM2-2.2B-Instruct", gated=False),
        config=architecture,
    )


def architecture() -> SmolVLMConfig:
    """Returns the configuration at full size: 2.25 billion parameters.

    Source: Marafioti et al. 2025, arXiv 2504.05299; Allal et al. 2025, arXiv 2502.02737 (SmolLM2-1.7B).
    """
    return SmolVLMConfig(
        text_config={
            "model_type": "llama", "vocab_size": 49280, "hidden_size": 2048, "intermediate_size": 8192,
            "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32,
            "max_position_embeddings": 8192, "pad_token_id": 2,
        },
        vision_config={
            "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
            "image_size": 384, "patch_size": 14,
        },
        scale_factor=3,
        image_token_id=49190,
        tie_word_embeddings=False,
    )  # fmt: skip
