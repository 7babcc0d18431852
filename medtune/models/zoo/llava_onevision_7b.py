"""llava_onevision_7b: LLaVA-OneVision-7B."""

from __future__ import annotations

from transformers import LlavaOnevisionConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "LLaVA-OneVision-7B: SigLIP so400m in tiles or frames + two-layer projector + Qwen2-7B",
        "Apache-2.0",
        "llava_onevision",
        hub=HubWeights("llava-hf/llava-onevision-qwen2-7b-ov-hf", gated=False),
        config=architecture,
    )


def architecture() -> LlavaOnevisionConfig:
    """Returns the configuration at full size: 8.03 billion parameters.

    Source: Li et al. 2024, arXiv 2408.03326; Yang et al. 2024, arXiv 2407.10671, table 1 (Qwen2-7B).
    """
    return LlavaOnevisionConfig(
        text_config={
            "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
        vision_config={
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
            "num_hidden_layers": 26, "num_attention_heads": 16, "image_size": 384, "patch_size": 14,
            "vision_use_head": False,
        },
    )  # fmt: skip
