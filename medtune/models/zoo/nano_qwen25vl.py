"""nano_qwen25vl: Qwen2.5-VL's random, tiny twin, for tests alone."""

from __future__ import annotations

from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import QWEN2_VL
from medtune.models.transformers_vlm.nano import Nano, nano_entry
from medtune.models.transformers_vlm.nano_qwen import nano_qwen


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen2.5-VL of width 32; for tests", QWEN2_VL, build)


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
