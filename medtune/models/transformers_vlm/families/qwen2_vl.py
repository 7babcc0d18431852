"""The family of Qwen2-VL and Qwen2.5-VL, to which Lingshu belongs."""

from __future__ import annotations

from functools import partial

from medtune.models.sequence import qwen_vl
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("qwen2_vl", "qwen2_5_vl"),
        wiring=in_sequence(parts("model.visual", "model.visual.merger"), decoder=language_model),
        sequence=qwen_vl.qwen2_vl,
        pixels=("pixel_values", "image_grid_thw"),
        video=partial(as_video, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        limit_videos=qwen_vl.limit_qwen2_videos,
    )
