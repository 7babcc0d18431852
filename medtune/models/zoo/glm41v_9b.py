"""glm41v_9b: GLM-4.1V-9B-Thinking."""

from __future__ import annotations

from transformers import Glm4vConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "GLM-4.1V-9B-Thinking: ViT of any image size + merger + GLM-4-9B",
        "MIT",
        "glm4v",
        hub=HubWeights("zai-org/GLM-4.1V-9B-Thinking", gated=False),
        config=architecture,
    )


def architecture() -> Glm4vConfig:
    """Returns the configuration at full size: 10.29 billion parameters.

    Source: GLM-V Team 2025, arXiv 2507.01006; transformers' defaults elsewhere, which are those of this model.
    """
    return Glm4vConfig(
        text_config={
            "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 2, "max_position_embeddings": 65536,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5,
            },
        },
        vision_config={
            "depth": 24, "hidden_size": 1536, "num_heads": 12, "intermediate_size": 13696, "out_hidden_size": 4096,
            "image_size": 336, "patch_size": 14,
        },
    )  # fmt: skip
