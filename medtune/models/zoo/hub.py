"""The models of transformers whose weights are on the hub, one function each.

`config` gives the configuration at full size, with transformers' defaults where it says nothing. The name of a function
is the model's name.
"""

from typing import Any

import transformers

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import Assembled
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.families.llava_video import (
    SO400M,
    LlavaVideoConfig,
    assemble_llava_video,
    published_tensors,
)
from medtune.models.transformers_vlm.generic.loading import generic_entry
from medtune.models.transformers_vlm.loading import hub_entry, skeleton, taken_fields
from medtune.models.weights.loading_options import DEFAULT, Loading

# Functions, because the configurations of transformers change the dictionaries that they are made of.


def _rope(theta: float = 1e6, **more: object) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta, **more}


def _qwen2(**more: object) -> dict[str, Any]:
    """Qwen2-7B and Qwen2.5-7B. Source: Yang et al. 2024, arXiv 2407.10671, table 1."""
    sizes = {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
        "rope_parameters": _rope(),
    }  # fmt: skip
    return {**sizes, **more}


def _vicuna() -> dict[str, Any]:
    """Source: Touvron et al. 2023, arXiv 2307.09288 (Llama-2-7B)."""
    return {
        "model_type": "llama", "vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
    }  # fmt: skip


def _clip_336() -> dict[str, Any]:
    return {
        "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "projection_dim": 768,
    }  # fmt: skip


def _siglip(**more: object) -> dict[str, Any]:
    """SigLIP so400m. Source: Zhai et al. 2023, arXiv 2303.15343."""
    sizes = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
    return {**sizes, "patch_size": 14, **more}


def _intern_vit() -> dict[str, Any]:
    return {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True, "norm_type": "layer_norm",
    }  # fmt: skip


def _qwen3_vit(**more: object) -> dict[str, Any]:
    sizes = {
        "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 4096,
        "patch_size": 16, "num_position_embeddings": 2304,
    }  # fmt: skip
    return {**sizes, **more}


def qwen2vl_7b() -> ZooEntry:
    """qwen2vl_7b: Qwen2-VL-7B-Instruct."""
    # Source: Wang et al. 2024, arXiv 2409.12191.
    return hub_entry(
        "Qwen2-VL-7B-Instruct: ViT + merger + Qwen2-7B",
        "Apache-2.0",
        "qwen2_vl",
        hub=HubWeights("Qwen/Qwen2-VL-7B-Instruct", gated=False),
        config=lambda: transformers.Qwen2VLConfig(
            text_config=_qwen2(rope_parameters=_rope(mrope_section=[16, 24, 24])),
            vision_config={"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16},
        ),
    )


def qwen25vl_7b() -> ZooEntry:
    """qwen25vl_7b: Qwen2.5-VL-7B-Instruct; also for other checkpoints of its architecture as model.weights."""
    return hub_entry(
        "Qwen2.5-VL-7B-Instruct: window-attention ViT + merger + Qwen2.5-7B",
        "Apache-2.0",
        "qwen2_vl",
        hub=HubWeights("Qwen/Qwen2.5-VL-7B-Instruct", gated=False),
        config=qwen25vl_config,
    )


def lingshu_7b() -> ZooEntry:
    """lingshu_7b: Lingshu-7B, a medical model with the architecture of Qwen2.5-VL-7B."""
    # Source: Xu et al. 2025, arXiv 2506.07044.
    return hub_entry(
        "Lingshu-7B: Qwen2.5-VL-7B tuned on medical images and text",
        "MIT",
        "qwen2_vl",
        hub=HubWeights("lingshu-medical-mllm/Lingshu-7B", gated=False),
        config=qwen25vl_config,
    )


def qwen25vl_config() -> transformers.Qwen2_5_VLConfig:
    """Returns the configuration of Qwen2.5-VL-7B: 8.29 billion parameters.

    Source: Bai et al. 2025, arXiv 2502.13923, table 1.
    """
    return transformers.Qwen2_5_VLConfig(
        text_config=_qwen2(max_position_embeddings=128000, rope_parameters=_rope(mrope_section=[16, 24, 24])),
        vision_config={
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
            "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112, "tokens_per_second": 2,
        },
    )  # fmt: skip


def qwen3vl_8b() -> ZooEntry:
    """qwen3vl_8b: Qwen3-VL-8B-Instruct."""
    # Source: Bai et al. 2025, arXiv 2511.21631.
    return hub_entry(
        "Qwen3-VL-8B-Instruct: ViT + mergers at four depths + Qwen3-8B",
        "Apache-2.0",
        "qwen3_vl",
        hub=HubWeights("Qwen/Qwen3-VL-8B-Instruct", gated=False),
        config=lambda: transformers.Qwen3VLConfig(
            text_config={
                "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6,
                "max_position_embeddings": 262144,
                "rope_parameters": _rope(5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
            },
            vision_config=_qwen3_vit(deepstack_visual_indexes=[8, 16, 24]),
        ),
    )  # fmt: skip


def qwen35_9b() -> ZooEntry:
    """qwen35_9b: Qwen3.5-9B, whose decoder mixes gated delta nets with attention."""
    # Source: the model card of Qwen/Qwen3.5-9B (layers, widths and heads of the decoder and the tower).
    return hub_entry(
        "Qwen3.5-9B: ViT + merger + gated delta nets, with attention in each fourth layer",
        "Apache-2.0",
        "qwen3_5",
        hub=HubWeights("Qwen/Qwen3.5-9B", gated=False),
        config=lambda: transformers.Qwen3_5Config(
            text_config={
                "vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
                "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 262144,
            },
            vision_config=_qwen3_vit(),
        ),
    )  # fmt: skip


def internvl3_8b() -> ZooEntry:
    """internvl3_8b: InternVL3-8B, in the checkpoint that the transformers library can read."""
    # Source: Zhu et al. 2025, arXiv 2504.10479.
    return hub_entry(
        "InternVL3-8B: InternViT-300M in tiles of 448 pixels + projector + Qwen2.5-7B",
        "MIT; Qwen2.5 in it: Apache-2.0",
        "internvl",
        hub=HubWeights("OpenGVLab/InternVL3-8B-hf", gated=False),
        config=lambda: transformers.InternVLConfig(
            text_config=_qwen2(model_type="qwen2", vocab_size=151674),
            vision_config=_intern_vit(),
            tie_word_embeddings=False,
        ),
    )


def internvl35_8b() -> ZooEntry:
    """internvl35_8b: InternVL3.5-8B, in the checkpoint that the transformers library can read."""
    # Source: Wang et al. 2025, arXiv 2508.18265; Yang et al. 2025, arXiv 2505.09388 (Qwen3-8B).
    return hub_entry(
        "InternVL3.5-8B: InternViT-300M in tiles of 448 pixels + projector + Qwen3-8B",
        "Apache-2.0",
        "internvl",
        hub=HubWeights("OpenGVLab/InternVL3_5-8B-HF", gated=False),
        config=lambda: transformers.InternVLConfig(
            text_config={
                "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
                "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_parameters": _rope(),
            },
            vision_config=_intern_vit(),
            tie_word_embeddings=False,
        ),
    )  # fmt: skip


def medgemma_4b() -> ZooEntry:
    """medgemma_4b: MedGemma-4B-it; also for google/medgemma-1.5-4b-it as model.weights, trained on CT slices."""
    # Source: Sellergren et al. 2025, arXiv 2507.05201; Gemma Team 2025, arXiv 2503.19786, table 1.
    return hub_entry(
        "MedGemma-4B-it: SigLIP so400m at 896 pixels + pooling to 256 tokens + Gemma 3 4B",
        "Health AI Developer Foundations terms of use",
        "gemma3",
        hub=HubWeights("google/medgemma-4b-it", gated=True),
        config=lambda: transformers.Gemma3Config(
            text_config={
                "vocab_size": 262208, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
                "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024,
                "max_position_embeddings": 131072,
            },
            vision_config=_siglip(image_size=896, vision_use_head=False),
        ),
    )  # fmt: skip


def gemma3n_e4b() -> ZooEntry:
    """gemma3n_e4b: Gemma 3n E4B, instruction-tuned."""
    # 7.82 billion parameters, 4 billion of them at work for a token: transformers' defaults.
    return generic_entry(
        "Gemma 3n E4B: MobileNet-V5 of 768 pixels + projection + a decoder with embeddings for each layer",
        "Gemma terms of use",
        hub=HubWeights("google/gemma-3n-E4B-it", gated=True),
        config=lambda: transformers.Gemma3nConfig(),
    )


def gemma4_e4b() -> ZooEntry:
    """gemma4_e4b: Gemma 4 E4B, instruction-tuned."""
    # 7.94 billion parameters, 4 billion of them at work for a token. Source: config.json of google/gemma-4-E4B-it.
    return generic_entry(
        "Gemma 4 E4B: ViT of any image shape + projection + a decoder with embeddings for each layer",
        "Apache-2.0",
        hub=HubWeights("google/gemma-4-E4B-it", gated=False),
        config=lambda: transformers.Gemma4Config(
            text_config={
                "vocab_size": 262144, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42,
                "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "num_kv_shared_layers": 18,
                "sliding_window": 512, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
                "final_logit_softcapping": 30.0, "max_position_embeddings": 131072,
            },
            vision_config={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16},
            audio_config={"hidden_size": 1024, "num_hidden_layers": 12},
        ),
    )  # fmt: skip


def glm41v_9b() -> ZooEntry:
    """glm41v_9b: GLM-4.1V-9B-Thinking."""
    # Source: GLM-V Team 2025, arXiv 2507.01006.
    return hub_entry(
        "GLM-4.1V-9B-Thinking: ViT of any image size + merger + GLM-4-9B",
        "MIT",
        "glm4v",
        hub=HubWeights("zai-org/GLM-4.1V-9B-Thinking", gated=False),
        config=lambda: transformers.Glm4vConfig(
            text_config={
                "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 13696, "num_hidden_layers": 40,
                "num_attention_heads": 32, "num_key_value_heads": 2, "max_position_embeddings": 65536,
                "rope_parameters": _rope(1e4, mrope_section=[8, 12, 12], partial_rotary_factor=0.5),
            },
            vision_config={
                "depth": 24, "hidden_size": 1536, "num_heads": 12, "intermediate_size": 13696, "out_hidden_size": 4096,
                "image_size": 336, "patch_size": 14,
            },
        ),
    )  # fmt: skip


def llama32_11b_vision() -> ZooEntry:
    """llama32_11b_vision: Llama-3.2-11B-Vision-Instruct, which reads the image through cross-attention."""
    # Source: transformers' defaults, which are this model's; tiles of 560 pixels as in the released checkpoint.
    return hub_entry(
        "Llama-3.2-11B-Vision-Instruct: ViT of four tiles + linear projector + Llama with 8 cross-attention layers",
        "Llama 3.2 Community License",
        "mllama",
        hub=HubWeights("meta-llama/Llama-3.2-11B-Vision-Instruct", gated=True),
        config=lambda: transformers.MllamaConfig(
            text_config={
                "rope_parameters": {
                    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                }
            },
            vision_config={"image_size": 560},
        ),
    )  # fmt: skip


def llava15_7b() -> ZooEntry:
    """llava15_7b: LLaVA-1.5-7B."""
    # Source: Liu et al. 2023, arXiv 2310.03744.
    return hub_entry(
        "LLaVA-1.5-7B: CLIP ViT-L/14 at 336 pixels + two-layer projector + Vicuna-7B",
        "Llama 2 Community License",
        "llava",
        hub=HubWeights("llava-hf/llava-1.5-7b-hf", gated=False),
        config=lambda: transformers.LlavaConfig(text_config=_vicuna(), vision_config=_clip_336()),
    )


def llava_next_video_7b() -> ZooEntry:
    """llava_next_video_7b: LLaVA-NeXT-Video-7B."""
    # Source: Zhang et al. 2024, llava-vl.github.io/blog/2024-04-30-llava-next-video.
    return hub_entry(
        "LLaVA-NeXT-Video-7B: CLIP ViT-L/14 at 336 pixels in tiles or frames + two-layer projector + Vicuna-7B",
        "Llama 2 Community License",
        "llava_next_video",
        hub=HubWeights("llava-hf/LLaVA-NeXT-Video-7B-hf", gated=False),
        config=lambda: transformers.LlavaNextVideoConfig(text_config=_vicuna(), vision_config=_clip_336()),
    )


def llava_onevision_7b() -> ZooEntry:
    """llava_onevision_7b: LLaVA-OneVision-7B."""
    # Source: Li et al. 2024, arXiv 2408.03326.
    return hub_entry(
        "LLaVA-OneVision-7B: SigLIP so400m in tiles or frames + two-layer projector + Qwen2-7B",
        "Apache-2.0",
        "llava_onevision",
        hub=HubWeights("llava-hf/llava-onevision-qwen2-7b-ov-hf", gated=False),
        config=lambda: transformers.LlavaOnevisionConfig(
            text_config=_qwen2(model_type="qwen2"),
            vision_config=_siglip(
                model_type="siglip_vision_model", num_hidden_layers=26, image_size=384, vision_use_head=False
            ),
        ),
    )


def llava_video_7b_qwen2() -> ZooEntry:
    """llava_video_7b_qwen2: LLaVA-Video-7B-Qwen2 as released; a frame has 210 tokens, line breaks included."""
    # Source: Zhang et al. 2024, arXiv 2410.02713.
    hub, family = HubWeights("lmms-lab/LLaVA-Video-7B-Qwen2", gated=False), find_family("llava_video")

    def assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        return assemble_llava_video(loading.weights or hub.repo_id, loading)

    return ZooEntry(
        "LLaVA-Video-7B-Qwen2: SigLIP so400m + two-layer projector + Qwen2-7B, a line break behind each row of a frame",
        "Apache-2.0",
        assemble,
        lambda _=DEFAULT: skeleton(
            LlavaVideoConfig(text_config=_qwen2(model_type="qwen2"), vision_config=dict(SO400M)), family
        ),
        hub,
        family="llava_video",
        published=published_tensors,
        takes=(*taken_fields(family), "time_sentence"),
    )


def minicpmv46_1b() -> ZooEntry:
    """minicpmv46_1b: MiniCPM-V 4.6."""
    # Source: config.json of openbmb/MiniCPM-V-4.6; that of Qwen/Qwen3.5-0.8B for the heads of the language model.
    return generic_entry(
        "MiniCPM-V 4.6: SigLIP-So400m in slices of 448 pixels + merger + Qwen3.5-0.8B",
        "Apache-2.0",
        hub=HubWeights("openbmb/MiniCPM-V-4.6", gated=False),
        config=lambda: transformers.MiniCPMV4_6Config(
            text_config={
                "model_type": "qwen3_5_text", "vocab_size": 248094, "hidden_size": 1024, "intermediate_size": 3584,
                "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
                "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
                "linear_value_head_dim": 128, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 6,
                "max_position_embeddings": 262144, "tie_word_embeddings": True,
            },
            vision_config=_siglip(image_size=980),
            image_size=1120,
            tie_word_embeddings=True,
        ),
    )  # fmt: skip


def smolvlm2_2b() -> ZooEntry:
    """smolvlm2_2b: SmolVLM2-2.2B-Instruct."""
    # Source: Marafioti et al. 2025, arXiv 2504.05299; Allal et al. 2025, arXiv 2502.02737 (SmolLM2-1.7B).
    return generic_entry(
        "SmolVLM2-2.2B-Instruct: SigLIP in tiles of 384 pixels + projector + SmolLM2-1.7B",
        "Apache-2.0",
        hub=HubWeights("HuggingFaceTB/SmolVLM2-2.2B-Instruct", gated=False),
        config=lambda: transformers.SmolVLMConfig(
            text_config={
                "model_type": "llama", "vocab_size": 49280, "hidden_size": 2048, "intermediate_size": 8192,
                "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32,
                "max_position_embeddings": 8192, "pad_token_id": 2,
            },
            vision_config=_siglip(image_size=384),
            scale_factor=3,
            image_token_id=49190,
            tie_word_embeddings=False,
        ),
    )  # fmt: skip
