"""nano_qwen3vl: Qwen3-VL's random, tiny twin, for tests alone."""

from __future__ import annotations

from transformers import Qwen3VLConfig, Qwen3VLProcessor, Qwen3VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import QWEN3_VL
from medtune.models.transformers_vlm.nano import Nano, nano_entry
from medtune.models.transformers_vlm.nano_qwen import ROPE, nano_qwen


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen3-VL of width 32; for tests", QWEN3_VL, _build)


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
