"""qwen2vl_7b: Qwen2-VL-7B-Instruct."""

from __future__ import annotations

from transformers import Qwen2VLConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "Qwen2-VL-7B-Instruct: ViT + merger + Qwen2-7B",
        "Apache-2.0",
        "qwen2_vl",
        hub=HubWeights("Qwen/Qwen2-VL-7B-Instruct", gated=False),
        config=architecture,
    )


def architecture() -> Qwen2VLConfig:
    """Returns the configuration at full size: 8.29 billion parameters.

    Source: Wang et al. 2024, arXiv 2409.12191; transformers' defaults elsewhere.
    """
    return Qwen2VLConfig(
        text_config={
            "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        vision_config={"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16},
    )  # fmt: skip
