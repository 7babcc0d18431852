"""The tiny, random twins of the Qwen-VL and GLM-V models, which take an image of any size; only for tests.

Each is a configuration at a small size and a processor that fits it. The chat templates are medtune's own.
"""

from collections.abc import Callable, Mapping
from typing import Any

import transformers
from transformers import PreTrainedConfig

from medtune.models.assemble import ZooEntry
from medtune.models.nano import byte_tokenizer
from medtune.models.nano.transformers_vlm import Nano, nano_entry, shrunk

QWEN_TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_QWEN_MERGED = 2
"""Number of patches along each side that become one token."""


def _rope(theta: float, **more: object) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta, "mrope_section": [2, 1, 1], **more}


def build_qwen(
    config: Callable[..., PreTrainedConfig],
    processor: Callable[..., object],
    video_processor: Callable[..., object],
    *,
    vision: Mapping[str, object],
    text: Mapping[str, object] | None = None,
    patch_px: int = 14,
) -> Nano:
    """Returns a twin of a Qwen-VL that shows an image in 4 to 16 tokens.

    Args:
        vision: Settings of the generation's tower beside those that all generations share.
        text: Settings of the generation's language model beside the shared ones; None for none.
    """
    named = ("vision_start", "vision_end", "image_pad", "video_pad")
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|{name}|>" for name in named))
    tokenizer = byte_tokenizer(special, bos=None, eos="<|im_end|>", pad="<|endoftext|>")
    token_px = (_QWEN_MERGED * patch_px) ** 2
    pixels = {"shortest_edge": 4 * token_px, "longest_edge": 16 * token_px}
    # The later generations, whose patches have 16 pixels, have SigLIP's normalisation in place of CLIP's.
    normalised: dict[str, Any] = {} if patch_px == 14 else {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    own = {"rope_parameters": _rope(1e6), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, **(text or {})}
    return Nano(
        shrunk(
            config,
            tokenizer,
            text=own,
            vision={"patch_size": patch_px, **vision},
            tokens={f"{name.removesuffix('_pad')}_token_id": f"<|{name}|>" for name in named},
        ),
        processor(
            image_processor=transformers.Qwen2VLImageProcessor(size=pixels, patch_size=patch_px, **normalised),
            tokenizer=tokenizer,
            video_processor=video_processor(size=pixels, **normalised),
            chat_template=QWEN_TEMPLATE,
        ),
    )


def nano_qwen2vl() -> ZooEntry:
    """nano_qwen2vl: Qwen2-VL's random, tiny twin, only for tests."""
    return nano_entry("Random Qwen2-VL of width 32; for tests", "qwen2_vl", build_qwen2vl)


def build_qwen2vl() -> Nano:
    """Returns the twin's configuration and processor."""
    return build_qwen(
        transformers.Qwen2VLConfig,
        transformers.Qwen2VLProcessor,
        transformers.Qwen2VLVideoProcessor,
        vision={"embed_dim": 32, "mlp_ratio": 2},
    )


def nano_qwen25vl() -> ZooEntry:
    """nano_qwen25vl: Qwen2.5-VL's random, tiny twin, only for tests."""
    return nano_entry("Random Qwen2.5-VL of width 32; for tests", "qwen2_vl", build_qwen25vl)


def build_qwen25vl() -> Nano:
    """Returns the twin's configuration and processor."""
    return build_qwen(
        transformers.Qwen2_5_VLConfig,
        transformers.Qwen2_5_VLProcessor,
        transformers.Qwen2VLVideoProcessor,
        vision={"fullatt_block_indexes": [1], "window_size": 56},
    )


def nano_qwen3vl() -> ZooEntry:
    """nano_qwen3vl: Qwen3-VL's random, tiny twin, only for tests."""
    return nano_entry("Random Qwen3-VL of width 32; for tests", "qwen3_vl", build_qwen3vl)


def build_qwen3vl(config: Callable[..., PreTrainedConfig] = transformers.Qwen3VLConfig, **text: object) -> Nano:
    """Returns the twin's configuration and processor, or with other settings of its language model a relative's."""
    return build_qwen(
        config,
        transformers.Qwen3VLProcessor,
        transformers.Qwen3VLVideoProcessor,
        text={"head_dim": 8, "rope_parameters": _rope(5e6, mrope_interleaved=True), **text},
        vision={"depth": 3, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
        patch_px=16,
    )


def nano_qwen35() -> ZooEntry:
    """nano_qwen35: Qwen3.5's random, tiny twin, with a gated delta net and an attention layer; only for tests."""
    return nano_entry("Random Qwen3.5 of width 32; for tests", "qwen3_5", build_qwen35)


def build_qwen35(config: Callable[..., PreTrainedConfig] = transformers.Qwen3_5Config, **text: object) -> Nano:
    """Returns the twin's configuration and processor, or with other settings of its language model a relative's."""
    return build_qwen(
        config,
        transformers.Qwen3VLProcessor,
        transformers.Qwen3VLVideoProcessor,
        text={
            "head_dim": 16, "initializer_range": 0.1, "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "rope_parameters": _rope(1e7, mrope_interleaved=True, partial_rotary_factor=0.5),
            **text,
        },
        vision={"num_position_embeddings": 64},
        patch_px=16,
    )  # fmt: skip


def nano_glm4v() -> ZooEntry:
    """nano_glm4v: GLM-4.1V's random, tiny twin, only for tests."""
    return nano_entry("Random GLM-4.1V of width 32; for tests", "glm4v", lambda: build_glm(transformers.Glm4vConfig))


def build_glm(config: Callable[..., PreTrainedConfig], **text: object) -> Nano:
    """Returns a twin of a GLM-4.xV that shows an image in 4 to 16 tokens."""
    edges = {f"{what}_{edge}": f"<|{word}_of_{what}|>"
        for what in ("image", "video") for edge, word in (("start", "begin"), ("end", "end"))}  # fmt: skip
    medias = {"image": "<|image|>", "video": "<|video|>"}
    special = ("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", *edges.values(), *medias.values())
    tokenizer = byte_tokenizer(special, bos=None, eos="<|endoftext|>", pad="<|endoftext|>")
    pair_px = 2 * 28 * 28
    pixels = {"shortest_edge": 4 * pair_px, "longest_edge": 16 * pair_px}
    shared: dict[str, Any] = {"head_dim": 16, "pad_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    return Nano(
        shrunk(
            config,
            tokenizer,
            text={**shared, "rope_parameters": _rope(1e4, partial_rotary_factor=0.5), **text},
            vision={"image_size": 56},
            tokens={f"{name}_token_id": token for name, token in {**medias, **edges}.items()},
        ),
        transformers.Glm4vProcessor(
            transformers.Glm4vImageProcessor(size=pixels),
            tokenizer,
            transformers.Glm4vVideoProcessor(size={**pixels, "longest_edge": 64 * pair_px}),
            chat_template=(
                "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n"
                "{% for part in message['content'] %}"
                "{% if part['type'] == 'image' %}<|begin_of_image|><|image|><|end_of_image|>"
                "{% elif part['type'] == 'video' %}<|begin_of_video|><|video|><|end_of_video|>"
                "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
                "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
            ),
        ),
    )
