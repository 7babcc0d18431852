"""nano_gemma3: Gemma 3's random, tiny twin (MedGemma's architecture), for tests alone."""

from __future__ import annotations

from transformers import Gemma3Config, Gemma3ImageProcessor, Gemma3Processor

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import GEMMA3
from medtune.models.transformers_vlm.nano import (
    INITIALIZER_RANGE,
    Nano,
    byte_tokenizer,
    nano_entry,
    token_id,
)

SPECIAL = (
    "<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>",
    "<image_soft_token>",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else 'user' %}"
    "<start_of_turn>{{ role }}\n{% for part in message['content'] %}{% if part['type'] == 'image' %}<start_of_image>"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""Ours, in Gemma's format."""
WINDOW = 24
"""Positions that a sliding layer sees; shorter than the tests' rows."""


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Gemma 3 of width 32; for tests", GEMMA3, _build)


def _build() -> Nano:
    tokenizer = byte_tokenizer(
        SPECIAL, bos="<bos>", eos="<eos>", pad="<pad>", boi_token="<start_of_image>", eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )  # fmt: skip
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": 56, "width": 56}),
        tokenizer=tokenizer,
        chat_template=CHAT_TEMPLATE,
        image_seq_length=4,
    )
    config = Gemma3Config(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8,
            "max_position_embeddings": 4096, "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"], "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id,
            "initializer_range": INITIALIZER_RANGE,
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 56, "patch_size": 14, "vision_use_head": False,
        },
        mm_tokens_per_image=4,
        boi_token_index=token_id(tokenizer, "<start_of_image>"),
        eoi_token_index=token_id(tokenizer, "<end_of_image>"),
        image_token_index=token_id(tokenizer, "<image_soft_token>"),
    )  # fmt: skip
    return Nano(config, processor)
