"""nano_mllama: Llama-3.2-Vision's random, tiny twin, only for tests."""

from __future__ import annotations

from transformers import MllamaConfig, MllamaImageProcessor, MllamaProcessor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.transformers_vlm import (
    INITIALIZER_RANGE,
    Nano,
    byte_tokenizer,
    nano_entry,
    text_config,
    token_id,
)
from medtune.models.nano.twin import Twin

SPECIAL = (
    "<|begin_of_text|>", "<|finetune_right_pad_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
    "<|eot_id|>", "<|python_tag|>", "<|image|>",
)  # fmt: skip
IMAGE_PX = 28

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<|image|>{% else %}{{ part['text'] | trim }}"
    "{% endif %}{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
"""medtune's own template, in Llama 3.2's format."""

TWIN = Twin(
    vision=(
        "whole.model.vision_model.transformer.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.vision_model.transformer.layers.{0,1}.mlp.fc{1,2}",
        "whole.model.vision_model.global_transformer.layers.0.self_attn.{q,k,v,o}_proj",
        "whole.model.vision_model.global_transformer.layers.0.mlp.fc{1,2}",
    ),
    projector=(),
    language=(
        "whole.model.language_model.layers.{0,2}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{1,3}.cross_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1,2,3}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.multi_modal_projector.{weight,bias}",),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Llama-3.2-Vision of width 32; for tests", "mllama", _build, TWIN)


def _build() -> Nano:
    tokenizer = byte_tokenizer(SPECIAL, bos=SPECIAL[0], eos="<|eot_id|>", pad=SPECIAL[1])
    processor = MllamaProcessor(
        image_processor=MllamaImageProcessor(size={"height": IMAGE_PX, "width": IMAGE_PX}, max_image_tiles=4),
        tokenizer=tokenizer,
        chat_template=CHAT_TEMPLATE,
    )
    # As in the released model, the image token is the first id that the output layer does not know.
    vocabulary = token_id(tokenizer, "<|image|>")
    config = MllamaConfig(
        text_config=text_config(
            tokenizer,
            vocab_size=vocabulary,
            num_hidden_layers=4,
            cross_attention_layers=[1, 3],
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        vision_config={
            "hidden_size": 16, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 2,
            "intermediate_size": 32, "image_size": IMAGE_PX, "patch_size": 14, "intermediate_layers_indices": [0, 1],
            "vision_output_dim": 48, "max_num_tiles": 4, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_index=vocabulary,
    )  # fmt: skip
    return Nano(config, processor)
