"""llava_video_7b_qwen2: LLaVA-Video-7B-Qwen2 as released; a frame has 210 tokens, line breaks included."""

from __future__ import annotations

from medtune.models.assemble import HubWeights, ZooEntry
from medtune.models.contract import Assembled
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.families.llava_video.model import LlavaVideoConfig
from medtune.models.transformers_vlm.families.llava_video.release import SO400M, assemble_llava_video, published_tensors
from medtune.models.transformers_vlm.loading import skeleton, taken_fields
from medtune.models.weights.loading_options import DEFAULT, Loading

HUB = HubWeights("lmms-lab/LLaVA-Video-7B-Qwen2", gated=False)


def entry() -> ZooEntry:
    """Returns the zoo entry."""
    return ZooEntry(
        "LLaVA-Video-7B-Qwen2: SigLIP so400m + two-layer projector + Qwen2-7B, a line break behind each row of a frame",
        "Apache-2.0",
        _assemble,
        lambda _=DEFAULT: skeleton(architecture(), find_family("llava_video")),
        HUB,
        family="llava_video",
        published=published_tensors,
        takes=(*taken_fields(find_family("llava_video")), "time_sentence"),
    )


def _assemble(seed: int, loading: Loading = DEFAULT, /) -> Assembled:
    return assemble_llava_video(loading.weights or HUB.repo_id, loading)


def architecture() -> LlavaVideoConfig:
    """Returns the configuration at full size: 8.03 billion parameters.

    Source: Zhang et al. 2024, arXiv 2410.02713; Yang et al. 2024, arXiv 2407.10671, table 1 (Qwen2-7B); Zhai et al.
    2023, arXiv 2303.15343 (SigLIP so400m).
    """
    return LlavaVideoConfig(
        text_config={
            "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
        vision_config=dict(SO400M),
    )  # fmt: skip
