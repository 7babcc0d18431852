"""nano_llava_onevision: LLaVA-OneVision's random, tiny twin, for tests alone."""

from __future__ import annotations

from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
)

from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.families import LLAVA_ONEVISION
from medtune.models.transformers_vlm.nano import (
    INITIALIZER_RANGE,
    Nano,
    byte_tokenizer,
    nano_entry,
    token_id,
)

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}\n{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Ours, in LLaVA-OneVision's format."""


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random LLaVA-OneVision of width 32; for tests", LLAVA_ONEVISION, _build)


def _build() -> Nano:
    tokenizer = byte_tokenizer(SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    size, pinpoints = {"height": 28, "width": 28}, [[28, 28], [28, 56], [56, 28], [56, 56]]
    processor = LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=pinpoints),
        tokenizer=tokenizer,
        video_processor=LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=CHAT_TEMPLATE,
    )
    config = LlavaOnevisionConfig(
        text_config={
            "model_type": "qwen2", "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 4096, "initializer_range": INITIALIZER_RANGE,
        },
        vision_config={
            "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 28, "patch_size": 14, "vision_use_head": False,
        },
        image_token_index=token_id(tokenizer, "<image>"),
        video_token_index=token_id(tokenizer, "<video>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_select_strategy="full",
    )  # fmt: skip
    return Nano(config, processor)
