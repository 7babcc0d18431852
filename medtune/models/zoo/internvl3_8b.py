"""internvl3_8b: InternVL3-8B, in the checkpoint that the transformers library can read."""

from __future__ import annotations

from transformers import InternVLConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "InternVL3-8B: InternViT-300M in tiles of 448 pixels + projector + Qwen2.5-7B",
        "MIT; Qwen2.5 in it: Apache-2.0",
        "internvl",
        hub=HubWeights("OpenGVLab/InternVL3-8B-hf", gated=False),
        config=architecture,
    )


def architecture() -> InternVLConfig:
    """Returns the configuration at full size: 7.94 billion parameters.

    Source: Zhu et al. 2025, arXiv 2504.10479; transformers' defaults elsewhere.
    """
    return InternVLConfig(
        text_config={
            "model_type": "qwen2", "vocab_size": 151674, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
        vision_config={
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
            "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True, "norm_type": "layer_norm",
        },
        tie_word_embeddings=False,
    )  # fmt: skip
