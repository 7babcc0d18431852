"""Builds the twins of the GLM-4.xV models, which share their control tokens, chat template and tower."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import Glm4vImageProcessor, Glm4vProcessor, Glm4vVideoProcessor, PreTrainedConfig

from medtune.models.nano.transformers_vlm import INITIALIZER_RANGE, Nano, byte_tokenizer, text_config, token_id

SPECIAL = (
    "<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|begin_of_image|>", "<|end_of_image|>",
    "<|begin_of_video|>", "<|end_of_video|>", "<|image|>", "<|video|>",
)  # fmt: skip
TEMPLATE = (
    "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|begin_of_image|><|image|><|end_of_image|>"
    "{% elif part['type'] == 'video' %}<|begin_of_video|><|video|><|end_of_video|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
"""medtune's own template, in GLM's format."""
_ROPE: Mapping[str, Any] = {
    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5,
}  # fmt: skip
VISION = (
    "whole.model.visual.blocks.{0,1}.attn.{qkv,proj}",
    "whole.model.visual.blocks.{0,1}.mlp.{gate,up,down}_proj",
)
PROJECTOR = ("whole.model.visual.merger.{proj,gate_proj,up_proj,down_proj}",)
PROJECTOR_WEIGHTS = (
    "whole.model.visual.merger.{proj,gate_proj,up_proj,down_proj}.weight",
    "whole.model.visual.merger.post_projection_norm.{weight,bias}",
)


def nano_glm(config: Callable[..., PreTrainedConfig], *, text: Mapping[str, object]) -> Nano:
    """Returns a twin of width 32 that shows an image in 4 to 16 tokens.

    Args:
        config: Class of the model's configuration.
        text: Settings of the language model beside the shared ones.
    """
    tokenizer = byte_tokenizer(SPECIAL, bos=None, eos="<|endoftext|>", pad="<|endoftext|>")
    pair_px = 2 * 28 * 28
    pixels = {"shortest_edge": 4 * pair_px, "longest_edge": 16 * pair_px}
    named = {f"{what}_token_id": f"<|{what}|>" for what in ("image", "video")}
    named |= {
        f"{what}_{edge}_token_id": f"<|{word}_of_{what}|>"
        for what in ("image", "video")
        for edge, word in (("start", "begin"), ("end", "end"))
    }
    return Nano(
        config(
            text_config=text_config(
                tokenizer,
                **{"rope_parameters": _ROPE, "pad_token_id": None, "eos_token_id": tokenizer.eos_token_id, **text},
            ),
            vision_config={
                "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 32,
                "image_size": 56, "initializer_range": INITIALIZER_RANGE,
            },
            **{name: token_id(tokenizer, token) for name, token in named.items()},
        ),
        Glm4vProcessor(
            Glm4vImageProcessor(size=pixels),
            tokenizer,
            Glm4vVideoProcessor(size={**pixels, "longest_edge": 64 * pair_px}),
            chat_template=TEMPLATE,
        ),
    )  # fmt: skip
