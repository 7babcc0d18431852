"""gemma4_e4b: Gemma 4 E4B, instruction-tuned."""

from __future__ import annotations

from transformers import Gemma4Config

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.transformers_vlm.generic.loading import generic_entry


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return generic_entry(
        "Gemma 4 E4B: ViT of any image shape + projection + a decoder with embeddings for each layer",
        "Apache-2.0",
        hub=HubWeights("google/gemma-4-E4B-it", gated=False),
        config=architecture,
    )


def architecture() -> Gemma4Config:
    """Returns the configuration at full size: 7.94 billion parameters, 4 billion of them at work for a token.

    Source: config.json of google/gemma-4-E4B-it; transformers' defaults elsewhere.
    """
    return Gemma4Config(
        text_config={
            "vocab_size": 262144, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "num_kv_shared_layers": 18,
            "sliding_window": 512, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
            "final_logit_softcapping": 30.0, "max_position_embeddings": 131072,
        },
        vision_config={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16},
        audio_config={"hidden_size": 1024, "num_hidden_layers": 12},
    )  # fmt: skip
