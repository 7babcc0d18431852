"""nano_qwen25vl: Qwen2.5-VL's random, tiny twin, for tests alone."""

from __future__ import annotations

from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import QWEN2_VL
from medtune.models.transformers_vlm.nano import (
    INITIALIZER_RANGE,
    QWEN_SPECIAL,
    QWEN_TEMPLATE,
    Nano,
    byte_tokenizer,
    nano_entry,
    token_id,
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Qwen2.5-VL of width 32; for tests", QWEN2_VL, _build)


def _build() -> Nano:
    tokenizer = byte_tokenizer(QWEN_SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    ids = {token: token_id(tokenizer, token) for token in QWEN_SPECIAL}
    pixels = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=pixels),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=pixels),
        chat_template=QWEN_TEMPLATE,
    )
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]},
            "bos_token_id": None, "eos_token_id": ids["<|im_end|>"], "initializer_range": INITIALIZER_RANGE,
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32,
            "fullatt_block_indexes": [1], "window_size": 56, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    return Nano(config, processor)
