"""nano_internvl: InternVL's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import GotOcr2ImageProcessor, InternVLConfig, InternVLProcessor, InternVLVideoProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.transformers_vlm import (
    INITIALIZER_RANGE,
    Nano,
    byte_tokenizer,
    clip_config,
    nano_entry,
    text_config,
    token_id,
)
from medtune.models.nano.twin import Twin

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<IMG_CONTEXT>\n{% elif part['type'] == 'video' %}<video>\n"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""medtune's own template, in InternVL's format."""

TWIN = Twin(
    vision=(
        "whole.model.vision_tower.encoder.layer.{0,1}.attention.{q_proj,k_proj,v_proj,projection_layer}",
        "whole.model.vision_tower.encoder.layer.{0,1}.mlp.fc{1,2}",
    ),
    projector=("whole.model.multi_modal_projector.linear_{1,2}",),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.multi_modal_projector.{layer_norm,linear_1,linear_2}.{weight,bias}",),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random InternVL of width 32; for tests", "internvl", _build, TWIN)


def _build() -> Nano:
    tokenizer = byte_tokenizer(
        SPECIAL, bos=None, eos="<|im_end|>", pad="<|endoftext|>", start_image_token="<img>", end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>", video_token="<video>",
    )  # fmt: skip
    size = {"height": 56, "width": 56}
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(size=size, max_patches=4),
        tokenizer=tokenizer,
        video_processor=InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=CHAT_TEMPLATE,
    )
    config = InternVLConfig(
        text_config=text_config(tokenizer, model_type="qwen2"),
        vision_config=clip_config(image_size=[56, 56], patch_size=[14, 14], initializer_range=INITIALIZER_RANGE),
        image_token_id=token_id(tokenizer, "<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return Nano(config, processor)
