"""nano_qwen3vl: Qwen3-VL's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import Qwen3VLConfig, Qwen3VLProcessor, Qwen3VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.qwen_vl import ROPE, nano_qwen
from medtune.models.nano.transformers_vlm import Nano, nano_entry
from medtune.models.nano.twin import Twin

TWIN = Twin(
    vision=(
        "whole.model.visual.blocks.{0,1,2}.attn.{qkv,proj}",
        "whole.model.visual.blocks.{0,1,2}.mlp.linear_fc{1,2}",
    ),
    projector=("whole.model.visual.{merger,deepstack_merger_list.0,deepstack_merger_list.1}.linear_fc{1,2}",),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=(
        "whole.model.visual.{merger,deepstack_merger_list.0,deepstack_merger_list.1}.{norm,linear_fc1,linear_fc2}.{weight,bias}",
    ),
    # The twin has two decoder layers. Features that are added at the visual tokens behind the last one have no
    # influence on an answer.
    unreached=("whole.model.visual.deepstack_merger_list.1.linear_fc{1,2}",),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen3-VL of width 32; for tests", "qwen3_vl", _build, TWIN)


def _build() -> Nano:
    return nano_qwen(
        Qwen3VLConfig,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
        text={"head_dim": 8, "rope_parameters": {**ROPE, "mrope_interleaved": True}},
        vision={
            "depth": 3, "intermediate_size": 48, "out_hidden_size": 32, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        patch_px=16,
    )  # fmt: skip
