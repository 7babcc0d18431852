"""glm45v: GLM-4.5V, a mixture of experts."""

from __future__ import annotations

from transformers import Glm4vMoeConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "GLM-4.5V: ViT of any image size + merger + GLM-4.5-Air (128 experts, 8 of them for each token)",
        "MIT",
        "glm4v",
        hub=HubWeights("zai-org/GLM-4.5V", gated=False),
        config=architecture,
    )


def architecture() -> Glm4vMoeConfig:
    """Returns the configuration at full size: 107.71 billion parameters.

    Source: GLM-4.5 Team 2025, arXiv 2508.06471 (GLM-4.5-Air); GLM-V Team 2025, arXiv 2507.01006; transformers' defaults
    elsewhere.
    """
    return Glm4vMoeConfig(
        text_config={
            "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 46,
            "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": True,
            "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "first_k_dense_replace": 1, "max_position_embeddings": 65536,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5,
            },
        },
        vision_config={
            "depth": 24, "hidden_size": 1536, "num_heads": 12, "intermediate_size": 10944, "out_hidden_size": 4096,
            "image_size": 336, "patch_size": 14,
        },
    )  # fmt: skip
