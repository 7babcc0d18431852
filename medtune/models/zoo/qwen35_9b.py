"""qwen35_9b: Qwen3.5-9B, whose decoder mixes gated delta nets with attention."""

from __future__ import annotations

from transformers import Qwen3_5Config

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.loading import hub_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return hub_entry(
        "Qwen3.5-9B: ViT + merger + gated delta nets, with attention in each fourth layer",
        "Apache-2.0",
        "qwen3_5",
        hub=HubWeights("Qwen/Qwen3.5-9B", gated=False),
        config=architecture,
    )


def architecture() -> Qwen3_5Config:
    """Returns the configuration at full size: 9.41 billion parameters.

    Source: the model card of Qwen/Qwen3.5-9B (layers, widths and heads of the decoder and the tower); transformers'
    defaults elsewhere, which are those of this model.
    """
    return Qwen3_5Config(
        text_config={
            "vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
            "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 262144,
        },
        vision_config={
            "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 4096,
            "patch_size": 16, "num_position_embeddings": 2304,
        },
    )  # fmt: skip
