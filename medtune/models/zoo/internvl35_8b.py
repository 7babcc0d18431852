"""internvl35_8b: InternVL3.5-8B, in the checkpoint that the transformers library can read."""

from __future__ import annotations

from transformers import InternVLConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "InternVL3.5-8B: InternViT-300M in tiles of 448 pixels + projector + Qwen3-8B",
        "Apache-2.0",
        "internvl",
        hub=HubWeights("OpenGVLab/InternVL3_5-8B-HF", gated=False),
        config=architecture,
    )


def architecture() -> InternVLConfig:
    """Returns the configuration at full size: 8.53 billion parameters.

    Source: Wang et al. 2025, arXiv 2508.18265; Yang et al. 2025, arXiv 2505.09388 (Qwen3-8B); transformers' defaults
    elsewhere.
    """
    return InternVLConfig(
        text_config={
            "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
        vision_config={
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
            "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True, "norm_type": "layer_norm",
        },
        tie_word_embeddings=False,
    )  # fmt: skip
