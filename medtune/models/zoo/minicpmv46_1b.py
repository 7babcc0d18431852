"""minicpmv46_1b: MiniCPM-V 4.6."""

from __future__ import annotations

from transformers import MiniCPMV4_6Config

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.generic.loading import generic_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return generic_entry(
        "MiniCPM-V 4.6: SigLIP-So400m in slices of 448 pixels + merger + Qwen3.5-0.8B",
        "Apache-2.0",
        hub=HubWeights("openbmb/MiniCPM-V-4.6", gated=False),
        config=architecture,
    )


def architecture() -> MiniCPMV4_6Config:
    """Returns the configuration at full size: 1.30 billion parameters.

    Source: config.json of openbmb/MiniCPM-V-4.6; that of Qwen/Qwen3.5-0.8B for the heads of the language model.
    """
    return MiniCPMV4_6Config(
        text_config={
            "model_type": "qwen3_5_text", "vocab_size": 248094, "hidden_size": 1024, "intermediate_size": 3584,
            "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
            "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 6,
            "max_position_embeddings": 262144, "tie_word_embeddings": True,
        },
        vision_config={
            "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
            "image_size": 980, "patch_size": 14,
        },
        image_size=1120,
        tie_word_embeddings=True,
    )  # fmt: skip
