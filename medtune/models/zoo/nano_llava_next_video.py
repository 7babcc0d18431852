"""nano_llava_next_video: LLaVA-NeXT-Video's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import (
    LlavaNextImageProcessor,
    LlavaNextVideoConfig,
    LlavaNextVideoProcessor,
    LlavaNextVideoVideoProcessor,
)

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

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'video' %}<video>\n"
    "{% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""medtune's own template, in LLaVA-NeXT-Video's format: no token ends a turn, and answers begin with a space."""

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
    # The model takes the output of the tower's last layer but one.
    unreached=(
        "whole.model.vision_tower.encoder.layers.1.self_attn.{q,k,v,out}_proj",
        "whole.model.vision_tower.encoder.layers.1.mlp.fc{1,2}",
    ),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random LLaVA-NeXT-Video of width 32; for tests", "llava_next_video", _build, TWIN)


def _build() -> Nano:
    special = ("<s>", "</s>", "<pad>", "<image>", "<video>")
    tokenizer = byte_tokenizer(special, bos="<s>", eos="</s>", pad="<pad>")
    side, pinpoints = {"height": 56, "width": 56}, [[56, 56], [56, 112], [112, 56]]
    processor = LlavaNextVideoProcessor(
        image_processor=LlavaNextImageProcessor(
            size={"shortest_edge": 56}, crop_size=side, image_grid_pinpoints=pinpoints
        ),
        tokenizer=tokenizer,
        video_processor=LlavaNextVideoVideoProcessor(size={"shortest_edge": 56}, crop_size=side),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE,
    )
    config = LlavaNextVideoConfig(
        text_config=text_config(tokenizer, model_type="llama"),
        vision_config=clip_config(model_type="clip_vision_model", image_size=56, initializer_range=INITIALIZER_RANGE),
        image_token_index=token_id(tokenizer, "<image>"),
        video_token_index=token_id(tokenizer, "<video>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-2,
    )
    return Nano(config, processor)
