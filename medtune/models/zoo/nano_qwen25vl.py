"""nano_qwen25vl: Qwen2.5-VL's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.qwen_vl import nano_qwen
from medtune.models.nano.transformers_vlm import Nano, nano_entry
from medtune.models.nano.twin import Twin

TWIN = Twin(
    vision=(
        "whole.model.visual.blocks.{0,1}.attn.{qkv,proj}",
        "whole.model.visual.blocks.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector=("whole.model.visual.merger.mlp.{0,2}",),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.visual.merger.ln_q.weight", "whole.model.visual.merger.mlp.{0,2}.{weight,bias}"),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen2.5-VL of width 32; for tests", "qwen2_vl", build, TWIN)


def build() -> Nano:
    """Returns the twin's configuration and processor."""
    return nano_qwen(
        Qwen2_5_VLConfig,
        Qwen2_5_VLProcessor,
        Qwen2VLVideoProcessor,
        vision={
            "depth": 2, "intermediate_size": 48, "out_hidden_size": 32, "fullatt_block_indexes": [1], "window_size": 56,
        },
    )  # fmt: skip
