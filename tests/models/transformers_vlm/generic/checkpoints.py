"""Tiny random checkpoints of architectures without a family, written as folders with transformers' own classes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import transformers

from medtune.models.nano import byte_tokenizer, token_id
from medtune.models.nano.transformers_vlm import INITIALIZER_RANGE, Nano, text_config, write_nano
from tests.models.transformers_vlm.generic.newer_checkpoints import gemma3n, minicpm_v, qwen3_omni, qwen25_omni

IM_START, IM_END = "<|im_start|>", "<|im_end|>"


def clip_config(**more: object) -> dict[str, Any]:
    """Returns the settings of a CLIP or SigLIP tower: two layers of width 32, 2 x 2 patches of 14 pixels."""
    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 28, "patch_size": 14,
    }  # fmt: skip
    return {**sizes, **more}


def chatml(image: str, *, spans: bool = False) -> str:
    """Returns a template in the ChatML form; with `spans`, it marks what the assistant generates."""
    opened, closed = ("{% generation %}", "{% endgeneration %}") if spans else ("", "")
    parts = (
        "{% for part in message['content'] %}{% if part['type'] == 'image' %}" + image + "{% else %}"
        "{{ part['text'] }}{% endif %}{% endfor %}"
    )
    return (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% if message['role'] == 'assistant' %}"
        + opened + parts + "<|im_end|>" + closed + "{{ '\n' }}{% else %}" + parts + "<|im_end|>\n{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )  # fmt: skip


def lfm2_vl() -> Nano:
    """Packed patches of any size with their shapes, tiles with rows and columns, and a decoder of convolutions."""
    rows = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 4) for column in range(1, 4)]
    special = ("<pad>", "</s>", IM_START, IM_END, "<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
    tokenizer = byte_tokenizer((*special, *rows), bos=None, eos=IM_END, pad="<pad>")
    processor = transformers.Lfm2VlProcessor(
        transformers.Lfm2VlImageProcessor(
            encoder_patch_size=8, tile_size=48, min_image_tokens=1, max_image_tokens=4, max_tiles=3,
            max_pixels_tolerance=1.0,
        ),
        tokenizer,
        chat_template=chatml("<image>", spans=True),
    )  # fmt: skip
    config = transformers.Lfm2VlConfig(
        text_config=text_config(tokenizer, model_type="lfm2", layer_types=["conv", "full_attention"]),
        vision_config={
            "model_type": "siglip2_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "patch_size": 8, "num_patches": 16, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_id=token_id(tokenizer, "<image>"),
        projector_hidden_size=48,
    )  # fmt: skip
    return Nano(config, processor)


_PLAIN = ("{{ message['role'] | upper }}: ", "", "ASSISTANT:")
_CHATML = ("<|im_start|>{{ message['role'] }}\n", "<|im_end|>\n", "<|im_start|>assistant\n")
"""What stands before and behind a turn, and before the answer."""


def llava_next(text: str = "mistral") -> Nano:
    """Tiles of any resolution with the size of the image and a learnt line break, before one of several decoders."""
    is_qwen = text == "qwen2"
    special = ("<s>", "</s>", "<pad>", "<image>", *(("<|im_start|>", "<|im_end|>") if is_qwen else ()))
    tokenizer = byte_tokenizer(special, bos="<s>", eos="<|im_end|>" if is_qwen else "</s>", pad="<pad>")
    before, behind, begun = _CHATML if is_qwen else _PLAIN
    pinpoints = [[56, 56], [56, 112], [112, 56]]
    processor = transformers.LlavaNextProcessor(
        transformers.LlavaNextImageProcessor(
            size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}, image_grid_pinpoints=pinpoints
        ),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            f"{{% for message in messages %}}{before}{{% for part in message['content'] %}}"
            "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }} {% endif %}{% endfor %}"
            f"{behind}{{% endfor %}}{{% if add_generation_prompt %}}{begun}{{% endif %}}"
        ),
    )
    rope: Any = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}} if is_qwen else {}
    config = transformers.LlavaNextConfig(
        text_config=text_config(tokenizer, model_type=text, sliding_window=None, **rope),
        vision_config=clip_config(model_type="clip_vision_model", image_size=56, initializer_range=INITIALIZER_RANGE),
        image_token_index=token_id(tokenizer, "<image>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-2,
    )
    return Nano(config, processor)


def mistral3() -> Nano:
    """Images of any size with a token that ends each row of patches."""
    special = ("<s>", "</s>", "<pad>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "[INST]", "[/INST]")
    tokenizer = byte_tokenizer(special, bos="<s>", eos="</s>", pad="<pad>")
    processor = transformers.PixtralProcessor(
        transformers.PixtralImageProcessor(size={"longest_edge": 64}, patch_size={"height": 8, "width": 8}),
        tokenizer,
        patch_size=8,
        spatial_merge_size=2,
        chat_template=(
            "<s>{% for message in messages %}{% if message['role'] == 'user' %}[INST]"
            "{% for part in message['content'] %}{% if part['type'] == 'image' %}[IMG]{% else %}{{ part['text'] }}"
            "{% endif %}{% endfor %}[/INST]{% else %}{{ message['content'][0]['text'] }}</s>{% endif %}{% endfor %}"
        ),
    )
    config = transformers.Mistral3Config(
        text_config=text_config(tokenizer, model_type="mistral", head_dim=8, sliding_window=None),
        vision_config={
            "model_type": "pixtral", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 64, "patch_size": 8, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_index=token_id(tokenizer, "[IMG]"),
        tie_word_embeddings=False,
    )  # fmt: skip
    return Nano(config, processor)


def pixtral() -> Nano:
    """Pixtral under LLaVA's type: images of any size with their sizes, and a token that ends each row of patches."""
    near = mistral3()
    told: Any = near.config.to_dict()
    processor = transformers.PixtralProcessor(
        near.processor.image_processor,
        near.processor.tokenizer,
        patch_size=8,
        chat_template=near.processor.chat_template,
    )
    config = transformers.LlavaConfig(
        text_config=told["text_config"],
        vision_config=told["vision_config"],
        image_token_index=token_id(near.processor.tokenizer, "[IMG]"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    return Nano(config, processor)


def ovis2() -> Nano:
    """Visual words: a softmax over a table of embeddings, between tokens that stand in the same table."""
    visual = ("<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    tokenizer = byte_tokenizer(("<pad>", IM_START, IM_END, "<image>", *visual), bos=None, eos=IM_END, pad="<pad>")
    processor = transformers.Ovis2Processor(
        transformers.Ovis2ImageProcessor(size={"height": 28, "width": 28}, crop_to_patches=True, max_patches=3),
        tokenizer,
        chat_template=chatml("<image>\n"),
        image_seq_length=4,
    )
    config = transformers.Ovis2Config(
        text_config=text_config(
            tokenizer, model_type="qwen2", rope_parameters={"rope_type": "default", "rope_theta": 1e6}
        ),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14, "vocab_size": 24, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_id=token_id(tokenizer, "<IMG_ATOM>"),
        visual_indicator_token_ids=[token_id(tokenizer, each) for each in visual[1:]],
        vocab_size=len(tokenizer),
        hidden_size=32,
        tie_word_embeddings=False,
    )  # fmt: skip
    return Nano(config, processor)


def idefics3() -> Nano:
    """Tiles with tags of rows and columns, a mask of pixels, and a language model that is called text_model."""
    tags = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    special = ("<s>", "</s>", "<pad>", "<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>")
    tokenizer = byte_tokenizer((*special, *tags), bos="<s>", eos="</s>", pad="<pad>")
    processor = transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(size={"longest_edge": 56}, max_image_size={"longest_edge": 28}),
        tokenizer,
        image_seq_len=1,
        chat_template=(
            "<s>{% for message in messages %}{{ message['role'] | capitalize }}:{% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<image>{% else %} {{ part['text'] }}{% endif %}{% endfor %}"
            "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
        ),
    )
    config = transformers.Idefics3Config(
        text_config=text_config(tokenizer, model_type="llama", pad_token_id=token_id(tokenizer, "<pad>")),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14, "initializer_range": INITIALIZER_RANGE,
        },
        image_token_id=token_id(tokenizer, "<image>"),
        scale_factor=2,
    )  # fmt: skip
    return Nano(config, processor)


def deepseek_vl() -> Nano:
    """One square image with a fixed number of tokens, and a template that takes the assistant's turn as text."""
    image = "<image_placeholder>"
    tokenizer = byte_tokenizer(("<s>", "</s>", "<pad>", image), bos="<s>", eos="</s>", pad="<pad>", image_token=image)
    processor = transformers.DeepseekVLProcessor(
        transformers.DeepseekVLImageProcessor(size={"height": 28, "width": 28}, min_size=14),
        tokenizer,
        num_image_tokens=4,
        chat_template=(
            "{% for message in messages %}{% if message['role'] == 'user' %}User: {% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<image_placeholder>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n\n"
            "{% else %}Assistant: {{ message['content'] }}</s>{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}Assistant:{% endif %}"
        ),
    )
    config = transformers.DeepseekVLConfig(
        text_config=text_config(tokenizer, model_type="llama"),
        vision_config=clip_config(model_type="siglip_vision_model", vision_use_head=False),
        image_token_id=token_id(tokenizer, image),
    )
    return Nano(config, processor)


def cohere2_vision() -> Nano:
    """Tiles with line breaks, logits that are scaled behind the output layer, and layers with a sliding window."""
    named = {
        "image_token": "<|IMG_PATCH|>", "boi_token": "<|START_OF_IMG|>", "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }  # fmt: skip
    tokenizer = byte_tokenizer(
        ("<BOS>", "<PAD>", "<|END_OF_TURN_TOKEN|>", *named.values()),
        bos="<BOS>",
        eos="<|END_OF_TURN_TOKEN|>",
        pad="<PAD>",
        **named,
    )
    images: Any = transformers.Cohere2VisionImageProcessor(size={"height": 28, "width": 28}, max_patches=3)
    images.patch_size = 1
    processor = transformers.Cohere2VisionProcessor(
        images,
        tokenizer,
        chat_template=(
            "<BOS>{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<|IMG_PATCH|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
            "<|END_OF_TURN_TOKEN|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
        ),
    )
    config = transformers.Cohere2VisionConfig(
        text_config=text_config(
            tokenizer, model_type="cohere2", sliding_window=32, layer_types=["sliding_attention", "full_attention"],
            logit_scale=0.5, bos_token_id=token_id(tokenizer, "<BOS>"), pad_token_id=token_id(tokenizer, "<PAD>"),
            eos_token_id=token_id(tokenizer, "<|END_OF_TURN_TOKEN|>"),
        ),
        vision_config=clip_config(model_type="siglip_vision_model", vision_use_head=False),
        image_token_id=token_id(tokenizer, "<|IMG_PATCH|>"),
        alignment_intermediate_size=48,
    )  # fmt: skip
    return Nano(config, processor)


def paligemma() -> Nano:
    """A prefix of image and question whose tokens see one another, and no chat template, as its vendor's folders."""
    tokenizer = byte_tokenizer(("<bos>", "<eos>", "<pad>"), bos="<bos>", eos="<eos>", pad="<pad>")
    images: Any = transformers.SiglipImageProcessor(size={"height": 28, "width": 28})
    images.image_seq_length = 4
    processor = transformers.PaliGemmaProcessor(images, tokenizer)
    config = transformers.PaliGemmaConfig(
        text_config=text_config(processor.tokenizer, model_type="gemma2", head_dim=8),
        vision_config=clip_config(model_type="siglip_vision_model", vision_use_head=False),
        image_token_index=token_id(processor.tokenizer, "<image>"),
        projection_dim=32,
        hidden_size=32,
        vocab_size=len(processor.tokenizer),
    )
    return Nano(config, processor)


def gemma4() -> Nano:
    """Patches of any image shape with their places, embeddings for each layer, and layers with a sliding window."""
    named = {
        "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>",
        "audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>",
    }  # fmt: skip
    tokenizer = byte_tokenizer(
        ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", *named.values(), "<|video|>"),
        bos="<bos>",
        eos="<eos>",
        pad="<pad>",
        **named,
    )
    ids: dict[str, Any] = {f"{name}_id": token_id(tokenizer, token) for name, token in named.items()}
    patches: dict[str, Any] = {"patch_size": 4, "max_soft_tokens": 70, "pooling_kernel_size": 3}
    processor = transformers.Gemma4Processor(
        transformers.Gemma4AudioFeatureExtractor(),
        transformers.Gemma4ImageProcessor(**patches),
        tokenizer,
        transformers.Gemma4VideoProcessor(**patches),
        chat_template=(
            "<bos>{% for message in messages %}<|turn>{{ message['role'] }}\n{% for part in message['content'] %}"
            "{% if part['type'] in ('image', 'video') %}<|{{ part['type'] }}|>{% else %}{{ part['text'] }}{% endif %}"
            "{% endfor %}<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>assistant\n{% endif %}"
        ),
    )
    config = transformers.Gemma4Config(
        text_config=text_config(
            tokenizer, num_hidden_layers=4, head_dim=16, global_head_dim=16, sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2,
            vocab_size_per_layer_input=len(tokenizer), hidden_size_per_layer_input=8, final_logit_softcapping=30.0,
        ),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "head_dim": 16, "patch_size": 4, "position_embedding_size": 256,
            "initializer_range": INITIALIZER_RANGE,
        },
        **ids,
        video_token_id=token_id(tokenizer, "<|video|>"),
    )  # fmt: skip
    return Nano(config, processor)


def smolvlm() -> Nano:
    """Idefics3's tiles, and videos with the time of each frame; the processor needs a package of its own."""
    pytest.importorskip("num2words")
    near = idefics3()
    tokenizer, size = near.processor.tokenizer, {"longest_edge": 28}
    processor = transformers.SmolVLMProcessor(
        transformers.SmolVLMImageProcessor(size={"longest_edge": 56}, max_image_size=size),
        tokenizer,
        transformers.SmolVLMVideoProcessor(size=size, max_image_size=size),
        image_seq_len=1,
        chat_template=near.processor.chat_template,
    )
    told: Any = near.config.to_dict()
    config = transformers.SmolVLMConfig(
        text_config=told["text_config"],
        vision_config={**told["vision_config"], "model_type": "smolvlm_vision"},
        image_token_id=told["image_token_id"],
        scale_factor=told["scale_factor"],
    )
    return Nano(config, processor)


BUILDERS: dict[str, Callable[[], Nano]] = {
    each.__name__: each
    for each in (
        lfm2_vl, llava_next, mistral3, pixtral, ovis2, idefics3, deepseek_vl, cohere2_vision, gemma4, smolvlm,
        minicpm_v, gemma3n, qwen25_omni, qwen3_omni,
    )
}  # fmt: skip
"""The architectures, which differ in how they are passed images."""


MORE: dict[str, Callable[[], Nano]] = {"paligemma": paligemma, "llava_next_qwen": partial(llava_next, "qwen2")}
"""Further checkpoints, of which the proof alone is asked."""


def write_checkpoint(name: str, folder: Path) -> Path:
    """Writes a tiny checkpoint of an architecture into a folder and returns it."""
    write_nano({**BUILDERS, **MORE}[name](), folder, seed=0)
    return folder
