"""llava15_7b: LLaVA-1.5-7B."""

from __future__ import annotations

from transformers import LlavaConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "LLaVA-1.5-7B: CLIP ViT-L/14 at 336 pixels + two-layer projector + Vicuna-7B",
        "Llama 2 Community License",
        "llava",
        hub=HubWeights("llava-hf/llava-1.5-7b-hf", gated=False),
        config=architecture,
    )


def architecture() -> LlavaConfig:
    """Returns the configuration at full size: 7.06 billion parameters.

    Source: Liu et al. 2023, arXiv 2310.03744; Touvron et al. 2023, arXiv 2307.09288 (Llama-2-7B).
    """
    return LlavaConfig(
        text_config={
            "model_type": "llama", "vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        },
        vision_config={
            "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "projection_dim": 768,
        },
    )  # fmt: skip
