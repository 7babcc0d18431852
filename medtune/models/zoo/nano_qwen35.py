"""nano_qwen35: Qwen3.5's random, tiny twin, with a gated delta net and an attention layer; only for tests."""

from __future__ import annotations

from transformers import Qwen3_5Config, Qwen3VLProcessor, Qwen3VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.qwen_vl import ROPE, nano_qwen
from medtune.models.nano.transformers_vlm import Nano, nano_entry
from medtune.models.nano.twin import Twin

TWIN = Twin(
    vision=(
        "whole.model.visual.blocks.{0,1}.attn.{qkv,proj}",
        "whole.model.visual.blocks.{0,1}.mlp.linear_fc{1,2}",
    ),
    projector=("whole.model.visual.merger.linear_fc{1,2}",),
    language=(
        "whole.model.language_model.layers.0.linear_attn.{in_proj_qkv,in_proj_z,in_proj_b,in_proj_a,out_proj}",
        "whole.model.language_model.layers.1.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.visual.merger.{norm,linear_fc1,linear_fc2}.{weight,bias}",),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen3.5 of width 32; for tests", "qwen3_5", _build, TWIN)


def _build() -> Nano:
    return nano_qwen(
        Qwen3_5Config,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
        text={
            "head_dim": 16, "initializer_range": 0.1, "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "rope_parameters": {**ROPE, "mrope_interleaved": True, "partial_rotary_factor": 0.5},
        },
        vision={"depth": 2, "intermediate_size": 48, "out_hidden_size": 32, "num_position_embeddings": 64},
        patch_px=16,
    )  # fmt: skip
