"""lingshu_7b: Lingshu-7B, a medical model with the architecture of Qwen2.5-VL-7B."""

from __future__ import annotations

from transformers import Qwen2_5_VLConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "Lingshu-7B: Qwen2.5-VL-7B tuned on medical images and text",
        "MIT",
        "qwen2_vl",
        hub=HubWeights("lingshu-medical-mllm/Lingshu-7B", gated=False),
        config=architecture,
    )


def architecture() -> Qwen2_5_VLConfig:
    """Returns the configuration at full size: 8.29 billion parameters.

    Source: Xu et al. 2025, arXiv 2506.07044; sizes of Qwen2.5-VL-7B, Bai et al. 2025, arXiv 2502.13923, table 1.
    """
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128000,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        vision_config={
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
            "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112, "tokens_per_second": 2,
        },
    )  # fmt: skip
