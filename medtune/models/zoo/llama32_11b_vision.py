"""llama32_11b_vision: Llama-3.2-11B-Vision-Instruct, which reads the image through cross-attention."""

from __future__ import annotations

from transformers import MllamaConfig

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "Llama-3.2-11B-Vision-Instruct: ViT of four tiles + linear projector + Llama with 8 cross-attention layers",
        "Llama 3.2 Community License",
        "mllama",
        hub=HubWeights("meta-llama/Llama-3.2-11B-Vision-Instruct", gated=True),
        config=architecture,
    )


def architecture() -> MllamaConfig:
    """Returns the configuration at full size: 10.67 billion parameters.

    Source: transformers' defaults, which are this model's; tiles of 560 pixels as in the released checkpoint.
    """
    return MllamaConfig(
        text_config={
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            }
        },
        vision_config={"image_size": 560},
    )  # fmt: skip
