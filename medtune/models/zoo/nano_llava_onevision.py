"""nano_llava_onevision: LLaVA-OneVision's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
)

from medtune.models.assemble import ZooEntry
from medtune.models.nano.transformers_vlm import Nano, byte_tokenizer, clip_config, nano_entry, text_config, token_id
from medtune.models.nano.twin import Twin

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'video' %}<video>\n"
    "{% else %}\n{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""medtune's own template, in LLaVA-OneVision's format."""

TWIN = Twin(
    vision=(
        "whole.model.vision_tower.encoder.layers.{0,1}.self_attn.{q,k,v,out}_proj",
        "whole.model.vision_tower.encoder.layers.{0,1}.mlp.fc{1,2}",
    ),
    projector=("whole.model.multi_modal_projector.linear_{1,2}",),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.multi_modal_projector.linear_{1,2}.{weight,bias}", "whole.model.image_newline"),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random LLaVA-OneVision of width 32; for tests", "llava_onevision", _build, TWIN)


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
        text_config=text_config(tokenizer, model_type="qwen2"),
        vision_config=clip_config(model_type="siglip_vision_model", vision_use_head=False),
        image_token_index=token_id(tokenizer, "<image>"),
        video_token_index=token_id(tokenizer, "<video>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_select_strategy="full",
    )
    return Nano(config, processor)
