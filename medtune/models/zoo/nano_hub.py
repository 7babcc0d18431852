"""The tiny, random twins of further models of transformers, only for tests.

Each is a configuration at a small size and a processor that fits it. The chat templates are medtune's own.
"""

from typing import Any

import transformers

from medtune.models.assemble import ZooEntry
from medtune.models.nano import byte_tokenizer, token_id
from medtune.models.nano.transformers_vlm import INITIALIZER_RANGE, Nano, nano_entry, shrunk
from medtune.models.transformers_vlm.families.llava_video import IMAGE, VIDEO, LlavaVideoConfig, build_processor

_IMAGENET: dict[str, Any] = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_CLIP: dict[str, Any] = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]
}  # fmt: skip
_HALF: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_ROPE = {"rope_type": "default", "rope_theta": 1e6}
_IM_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

MLLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<|image|>{% else %}{{ part['text'] | trim }}"
    "{% endif %}{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""No token ends a turn, and the answer begins with a space."""
_LLAVA_SPECIAL = ("<s>", "</s>", "<pad>", "<image>")
_LLAVA_CLIP: dict[str, Any] = {
    "patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1
}  # fmt: skip


def nano_internvl() -> ZooEntry:
    """nano_internvl: InternVL's random, tiny twin, only for tests."""
    return nano_entry("Random InternVL of width 32; for tests", "internvl", build_internvl)


def build_internvl() -> Nano:
    """Returns the twin's configuration and processor."""
    context = "<IMG_CONTEXT>"
    tokenizer = byte_tokenizer(
        (*_IM_SPECIAL, "<img>", "</img>", context, "<video>"), bos=None, eos="<|im_end|>", pad="<|endoftext|>",
        start_image_token="<img>", end_image_token="</img>", context_image_token=context, video_token="<video>",
    )  # fmt: skip
    size = {"height": 56, "width": 56}
    processor = transformers.InternVLProcessor(
        image_processor=transformers.GotOcr2ImageProcessor(size=size, max_patches=4, **_IMAGENET),
        tokenizer=tokenizer,
        video_processor=transformers.InternVLVideoProcessor(size=size, **_IMAGENET),
        image_seq_length=4,
        chat_template=(
            "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<IMG_CONTEXT>\n{% elif part['type'] == 'video' %}<video>\n"
            "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )
    config = shrunk(
        transformers.InternVLConfig,
        tokenizer,
        text={"model_type": "qwen2", "rope_parameters": _ROPE},
        vision={"image_size": [56, 56], "patch_size": [14, 14]},
        tokens={"image_token_id": context},
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return Nano(config, processor)


def nano_gemma3() -> ZooEntry:
    """nano_gemma3: Gemma 3's random, tiny twin (MedGemma's architecture), only for tests."""
    return nano_entry("Random Gemma 3 of width 32; for tests", "gemma3", build_gemma3)


def build_gemma3() -> Nano:
    """Returns the twin's configuration and processor; its layers with sliding attention see 24 positions."""
    special = ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")
    named = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = byte_tokenizer((*special, *named.values()), bos="<bos>", eos="<eos>", pad="<pad>", **named)
    processor = transformers.Gemma3Processor(
        image_processor=transformers.Gemma3ImageProcessor(size={"height": 56, "width": 56}),
        tokenizer=tokenizer,
        chat_template=(
            "{{ bos_token }}{% for message in messages %}"
            "{% set role = 'model' if message['role'] == 'assistant' else 'user' %}"
            "<start_of_turn>{{ role }}\n{% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<start_of_image>"
            "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
        ),
        image_seq_length=4,
    )
    config = shrunk(
        transformers.Gemma3Config,
        tokenizer,
        text={
            "head_dim": 8, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 24, "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id,
        },
        vision={"image_size": 56, "vision_use_head": False},
        tokens={f"{name}_index": token for name, token in named.items()},
        mm_tokens_per_image=4,
    )  # fmt: skip
    return Nano(config, processor)


def nano_mllama() -> ZooEntry:
    """nano_mllama: Llama-3.2-Vision's random, tiny twin, only for tests."""
    return nano_entry("Random Llama-3.2-Vision of width 32; for tests", "mllama", build_mllama)


def build_mllama() -> Nano:
    """Returns the twin's configuration and processor."""
    special = (
        "<|begin_of_text|>", "<|finetune_right_pad_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
        "<|eot_id|>", "<|python_tag|>", "<|image|>",
    )  # fmt: skip
    tokenizer = byte_tokenizer(special, bos=special[0], eos="<|eot_id|>", pad=special[1])
    processor = transformers.MllamaProcessor(
        image_processor=transformers.MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4, **_CLIP),
        tokenizer=tokenizer,
        chat_template=MLLAMA_TEMPLATE,
    )
    config = shrunk(
        transformers.MllamaConfig,
        tokenizer,
        text={
            # As in the released model, the image token is the first id that the output layer does not know.
            "vocab_size": token_id(tokenizer, "<|image|>"), "num_hidden_layers": 4, "cross_attention_layers": [1, 3],
            "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
        },
        vision={
            "hidden_size": 16, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 2,
            "intermediate_size": 32, "intermediate_layers_indices": [0, 1], "vision_output_dim": 48, "max_num_tiles": 4,
            "initializer_range": INITIALIZER_RANGE,
        },
        tokens={"image_token_index": "<|image|>"},
    )  # fmt: skip
    return Nano(config, processor)


def nano_llava() -> ZooEntry:
    """nano_llava: LLaVA-1.5's random, tiny twin, only for tests."""
    return nano_entry("Random LLaVA-1.5 of width 32; for tests", "llava", build_llava)


def build_llava() -> Nano:
    """Returns the twin's configuration and processor."""
    tokenizer = byte_tokenizer(_LLAVA_SPECIAL, bos="<s>", eos="</s>", pad="<pad>")
    side = {"height": 28, "width": 28}
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size=side),
        tokenizer=tokenizer,
        chat_template=_LLAVA_TEMPLATE,
        **_LLAVA_CLIP,
    )
    config = shrunk(
        transformers.LlavaConfig,
        tokenizer,
        text={"model_type": "llama"},
        vision={"model_type": "clip_vision_model"},
        tokens={"image_token_index": "<image>"},
        vision_feature_layer=-2,
    )
    return Nano(config, processor)


def nano_llava_next_video() -> ZooEntry:
    """nano_llava_next_video: LLaVA-NeXT-Video's random, tiny twin, only for tests."""
    title = "Random LLaVA-NeXT-Video of width 32; for tests"
    return nano_entry(title, "llava_next_video", build_llava_next_video)


def build_llava_next_video() -> Nano:
    """Returns the twin's configuration and processor."""
    tokenizer = byte_tokenizer((*_LLAVA_SPECIAL, "<video>"), bos="<s>", eos="</s>", pad="<pad>")
    side, pinpoints = {"height": 56, "width": 56}, [[56, 56], [56, 112], [112, 56]]
    with_video = "{% elif part['type'] == 'video' %}<video>\n{% else %}"
    processor = transformers.LlavaNextVideoProcessor(
        image_processor=transformers.LlavaNextImageProcessor(
            size={"shortest_edge": 56}, crop_size=side, image_grid_pinpoints=pinpoints
        ),
        tokenizer=tokenizer,
        video_processor=transformers.LlavaNextVideoVideoProcessor(size={"shortest_edge": 56}, crop_size=side),
        chat_template=_LLAVA_TEMPLATE.replace("{% else %}", with_video),
        **_LLAVA_CLIP,
    )
    config = shrunk(
        transformers.LlavaNextVideoConfig,
        tokenizer,
        text={"model_type": "llama"},
        vision={"model_type": "clip_vision_model", "image_size": 56},
        tokens={"image_token_index": "<image>", "video_token_index": "<video>"},
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-2,
    )
    return Nano(config, processor)


def nano_llava_onevision() -> ZooEntry:
    """nano_llava_onevision: LLaVA-OneVision's random, tiny twin, only for tests."""
    return nano_entry("Random LLaVA-OneVision of width 32; for tests", "llava_onevision", build_llava_onevision)


def build_llava_onevision() -> Nano:
    """Returns the twin's configuration and processor."""
    special = (*_IM_SPECIAL, "<image>", "<video>")
    tokenizer = byte_tokenizer(special, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    size, pinpoints = {"height": 28, "width": 28}, [[28, 28], [28, 56], [56, 28], [56, 56]]
    processor = transformers.LlavaOnevisionProcessor(
        image_processor=transformers.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=pinpoints, **_HALF),
        tokenizer=tokenizer,
        video_processor=transformers.LlavaOnevisionVideoProcessor(size=size, **_HALF),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=(
            "{% for message in messages %}<|im_start|>{{ message['role'] }} {% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<image>\n{% elif part['type'] == 'video' %}<video>\n"
            "{% else %}\n{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        ),
    )
    config = shrunk(
        transformers.LlavaOnevisionConfig,
        tokenizer,
        text={"model_type": "qwen2", "rope_parameters": _ROPE},
        vision={"model_type": "siglip_vision_model", "vision_use_head": False},
        tokens={"image_token_index": "<image>", "video_token_index": "<video>"},
        image_grid_pinpoints=pinpoints,
        vision_feature_select_strategy="full",
    )
    return Nano(config, processor)


def nano_llava_video() -> ZooEntry:
    """nano_llava_video: LLaVA-Video's random, tiny twin, only for tests: 5 x 5 patches, 12 tokens a frame."""
    return nano_entry("Random LLaVA-Video of width 32; for tests", "llava_video", build_llava_video)


def build_llava_video() -> Nano:
    """Returns the twin's configuration and processor."""
    tokenizer = byte_tokenizer((*_IM_SPECIAL, IMAGE, VIDEO), bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    config = shrunk(
        LlavaVideoConfig,
        tokenizer,
        text={"model_type": "qwen2"},
        vision={"model_type": "siglip_vision_model", "vision_use_head": False, "image_size": 70},
        tokens={"image_token_index": IMAGE, "video_token_index": VIDEO},
        image_grid_pinpoints=[[70 * rows, 70 * columns] for rows in (1, 2) for columns in (1, 2)],
    )
    return Nano(config, build_processor(tokenizer, config))
