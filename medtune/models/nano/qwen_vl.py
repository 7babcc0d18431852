"""Builds the twins of the Qwen-VL models, which share their control tokens, chat template and most sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedConfig, Qwen2VLImageProcessor

from medtune.models.nano.transformers_vlm import INITIALIZER_RANGE, Nano, byte_tokenizer, text_config, token_id

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
)  # fmt: skip
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""medtune's own template, in Qwen-VL's format."""
ROPE: Mapping[str, Any] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
_MERGED = 2
"""Number of patches along each side that become one token."""


def nano_qwen(
    config: Callable[..., PreTrainedConfig],
    processor: Callable[..., object],
    video_processor: Callable[..., object],
    *,
    vision: Mapping[str, object],
    text: Mapping[str, object] | None = None,
    patch_px: int = 14,
) -> Nano:
    """Returns a twin of width 32 that shows an image in 4 to 16 tokens.

    Args:
        config: Class of the generation's configuration.
        processor: Class of the generation's processor.
        video_processor: Class of the generation's video processor.
        vision: Settings of the generation's tower beside those that all generations share.
        text: Settings of the generation's language model beside the shared ones; None for none.
        patch_px: Side of a patch in pixels.
    """
    tokenizer = byte_tokenizer(SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    token_px = (_MERGED * patch_px) ** 2
    pixels = {"shortest_edge": 4 * token_px, "longest_edge": 16 * token_px}
    named = {"image_token_id": "image_pad", "video_token_id": "video_pad"}
    named |= {"vision_start_token_id": "vision_start", "vision_end_token_id": "vision_end"}
    return Nano(
        config(
            text_config=text_config(
                tokenizer,
                **{
                    "rope_parameters": ROPE,
                    "bos_token_id": None,
                    "eos_token_id": tokenizer.eos_token_id,
                    **(text or {}),
                },
            ),
            vision_config={"hidden_size": 32, "num_heads": 2, "initializer_range": INITIALIZER_RANGE, **vision},
            **{name: token_id(tokenizer, f"<|{token}|>") for name, token in named.items()},
        ),
        processor(
            image_processor=Qwen2VLImageProcessor(size=pixels, patch_size=patch_px),
            tokenizer=tokenizer,
            video_processor=video_processor(size=pixels),
            chat_template=TEMPLATE,
        ),
    )
