"""nano_gemma3: Gemma 3's random, tiny twin (MedGemma's architecture), only for tests."""

from __future__ import annotations

from transformers import Gemma3Config, Gemma3ImageProcessor, Gemma3Processor

from medtune.models.assemble import ZooEntry
from medtune.models.nano.transformers_vlm import Nano, byte_tokenizer, clip_config, nano_entry, text_config, token_id
from medtune.models.nano.twin import Twin

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
"""medtune's own template, in Gemma's format."""
WINDOW = 24
"""Number of positions that a layer with sliding attention sees; the tests' rows are longer."""

TWIN = Twin(
    vision=(
        "whole.model.vision_tower.encoder.layers.{0,1}.self_attn.{q,k,v,out}_proj",
        "whole.model.vision_tower.encoder.layers.{0,1}.mlp.fc{1,2}",
    ),
    projector=(),
    language=(
        "whole.model.language_model.layers.{0,1}.self_attn.{q,k,v,o}_proj",
        "whole.model.language_model.layers.{0,1}.mlp.{gate,up,down}_proj",
    ),
    projector_weights=("whole.model.multi_modal_projector.{mm_input_projection_weight,mm_soft_emb_norm.weight}",),
)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return nano_entry("Random Gemma 3 of width 32; for tests", "gemma3", _build, TWIN)


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
        text_config=text_config(
            tokenizer,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "full_attention"],
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.bos_token_id,
        ),
        vision_config=clip_config(image_size=56, vision_use_head=False),
        mm_tokens_per_image=4,
        boi_token_index=token_id(tokenizer, "<start_of_image>"),
        eoi_token_index=token_id(tokenizer, "<end_of_image>"),
        image_token_index=token_id(tokenizer, "<image_soft_token>"),
    )
    return Nano(config, processor)
