"""nano_qwen3vl: Qwen3-VL's random, tiny twin, for tests alone."""

from __future__ import annotations

from transformers import Qwen2VLImageProcessor, Qwen3VLConfig, Qwen3VLProcessor, Qwen3VLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import QWEN3_VL
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
    return nano_entry("Random Qwen3-VL of width 32; for tests", QWEN3_VL, _build)


def _build() -> Nano:
    tokenizer = byte_tokenizer(QWEN_SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    ids = {token: token_id(tokenizer, token) for token in QWEN_SPECIAL}
    pixels = {"shortest_edge": 64 * 64, "longest_edge": 128 * 128}
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=pixels, patch_size=16),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(size=pixels),
        chat_template=QWEN_TEMPLATE,
    )
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True,
            },
            "initializer_range": INITIALIZER_RANGE,
        },
        vision_config={
            "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32,
            "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1], "initializer_range": INITIALIZER_RANGE,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    return Nano(config, processor)
