"""qwen3vl_8b: Qwen3-VL-8B-Instruct."""

from __future__ import annotations

from transformers import Qwen3VLConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "Qwen3-VL-8B-Instruct: ViT + mergers at four depths + Qwen3-8B",
        "Apache-2.0",
        "qwen3_vl",
        hub=HubWeights("Qwen/Qwen3-VL-8B-Instruct", gated=False),
        config=architecture,
    )


def architecture() -> Qwen3VLConfig:
    """Returns the configuration at full size: 8.77 billion parameters.

    Source: Bai et al. 2025, arXiv 2511.21631; transformers' defaults elsewhere.
    """
    return Qwen3VLConfig(
        text_config={
            "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 262144,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 4096,
            "patch_size": 16, "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24],
        },
    )  # fmt: skip
