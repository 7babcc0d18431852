"""The families that medtune knows."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from medtune.models.sequence import mllama, qwen_vl
from medtune.models.transformers_vlm import cross_attention
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.in_sequence import in_sequence


def _decoder(whole: PreTrainedModel) -> nn.Module:
    return whole.get_submodule("model.language_model")


QWEN2_5_VL = Family(
    model_types=("qwen2_5_vl",),
    wiring=in_sequence(
        {
            "vision": ("model.visual",),
            "projector": ("model.visual.merger",),
            "language": ("model.language_model", "lm_head"),
        },
        decoder=_decoder,
    ),
    sequence=qwen_vl.family,
    pixels=("pixel_values", "image_grid_thw"),
    any_size=True,
)
"""Qwen2.5-VL; Lingshu is one."""

MLLAMA = Family(
    model_types=("mllama",),
    wiring=cross_attention.mllama(),
    sequence=mllama.family,
    pixels=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
)
"""Llama-3.2-Vision."""
