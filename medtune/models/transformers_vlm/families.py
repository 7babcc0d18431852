"""The families that medtune knows."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from medtune.models.sequence import mllama, placeholder, qwen_vl
from medtune.models.transformers_vlm import cross_attention
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.in_sequence import VisualTokens, in_sequence, rows_of
from medtune.models.transformers_vlm.llava_video import LlavaVideoConfig
from medtune.models.transformers_vlm.media import as_images, as_tiles, as_video
from medtune.models.transformers_vlm.wiring import Step
from medtune.models.tuning.plan import PartName

LANGUAGE = ("model.language_model", "lm_head")


def _decoder(whole: PreTrainedModel) -> nn.Module:
    return whole.get_submodule("model.language_model")


def _model(whole: PreTrainedModel) -> nn.Module:
    return whole.get_submodule("model")


def _deepstack(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    """Returns the tower's intermediate features, which the first decoder layers add at the visual tokens."""
    if encoded is None or not bool(step.media_BL.any()):
        return {}
    deep = [rows_of(layer, step) for layer in encoded.deep]
    return {"visual_pos_masks": step.media_BL, "deepstack_visual_embeds": deep}


def _token_types(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    """Returns which tokens are visual: these see one another both ways."""
    return {"token_type_ids": step.media_BL.long()} if bool(step.media_BL.any()) else {}


def _roots(tower: str, *projector: str) -> dict[PartName, tuple[str, ...]]:
    return {"vision": (tower,), "projector": projector, "language": LANGUAGE}


QWEN2_VL = Family(
    model_types=("qwen2_vl", "qwen2_5_vl"),
    wiring=in_sequence(_roots("model.visual", "model.visual.merger"), decoder=_decoder),
    sequence=qwen_vl.qwen2_vl,
    pixels=("pixel_values", "image_grid_thw"),
    video=partial(as_video, names=("pixel_values_videos", "video_grid_thw")),
    any_size=True,
)
"""Qwen2-VL and Qwen2.5-VL; Lingshu is one of these."""

QWEN3_VL = Family(
    model_types=("qwen3_vl",),
    wiring=in_sequence(
        _roots("model.visual", "model.visual.merger", "model.visual.deepstack_merger_list"),
        decoder=_decoder,
        shown=_deepstack,
    ),
    sequence=qwen_vl.qwen3_vl,
    pixels=("pixel_values", "image_grid_thw"),
    video=partial(as_video, names=("pixel_values_videos", "video_grid_thw")),
    any_size=True,
)
"""Qwen3-VL."""

MLLAMA = Family(
    model_types=("mllama",),
    wiring=cross_attention.mllama(),
    sequence=mllama.family,
    pixels=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
)
"""Llama-3.2-Vision."""

LLAVA = Family(
    model_types=("llava",),
    wiring=in_sequence(_roots("model.vision_tower", "model.multi_modal_projector"), decoder=_decoder),
    sequence=placeholder.llava,
    pixels=("pixel_values",),
    video=as_images,
)
"""LLaVA-1.5."""

LLAVA_NEXT_VIDEO = Family(
    model_types=("llava_next_video",),
    wiring=in_sequence(
        _roots("model.vision_tower", "model.vision_resampler", "model.multi_modal_projector", "model.image_newline"),
        decoder=_decoder,
    ),
    sequence=placeholder.llava_next_video,
    pixels=("pixel_values", "image_sizes"),
    video=partial(as_video, names=("pixel_values_videos",)),
)
"""LLaVA-NeXT-Video; images in tiles with line breaks, frames pooled to a quarter of their tokens."""

LLAVA_ONEVISION = Family(
    model_types=("llava_onevision",),
    wiring=in_sequence(
        _roots("model.vision_tower", "model.multi_modal_projector", "model.image_newline"), decoder=_decoder
    ),
    sequence=placeholder.llava_onevision,
    pixels=("pixel_values", "image_sizes"),
    video=partial(as_video, names=("pixel_values_videos",)),
)
"""LLaVA-OneVision; the line break is a parameter of the projector's group."""

LLAVA_VIDEO = Family(
    model_types=(LlavaVideoConfig.model_type,),
    wiring=in_sequence(
        _roots("model.vision_tower", "model.multi_modal_projector", "model.image_newline"), decoder=_decoder
    ),
    sequence=placeholder.llava_video,
    pixels=("pixel_values", "image_sizes"),
    video=partial(as_video, names=("pixel_values_videos",)),
)
"""LLaVA-Video; one image as LLaVA-OneVision shows it, a video with a line break behind each row of a frame."""

INTERNVL = Family(
    model_types=("internvl",),
    wiring=in_sequence(_roots("model.vision_tower", "model.multi_modal_projector"), decoder=_decoder),
    sequence=placeholder.internvl,
    pixels=("pixel_values",),
    video=as_tiles,
)
"""InternVL3 and 3.5, the `-hf` checkpoints."""

GEMMA3 = Family(
    model_types=("gemma3",),
    wiring=in_sequence(
        _roots("model.vision_tower", "model.multi_modal_projector"),
        decoder=_model,
        shown=_token_types,
        plain_because="the tokens of an image see one another both ways, which transformers works out itself",
    ),
    sequence=placeholder.gemma3,
    pixels=("pixel_values",),
    video=as_images,
)
"""Gemma 3 and MedGemma; the projector is a bare parameter, so LoRA cannot reach it and `full` trains it."""
