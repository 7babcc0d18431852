"""The family of Qwen3.5, whose decoder mixes gated delta nets with attention; media are written as for Qwen3-VL."""

from __future__ import annotations

from functools import partial

from medtune.models.sequence import qwen_vl
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_pairs
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("qwen3_5",),
        wiring=in_sequence(
            parts("model.visual", "model.visual.merger"),
            decoder=language_model,
            plain_because="its gated delta nets carry a state from token to token, which no mask divides",
        ),
        sequence=qwen_vl.qwen3_vl,
        pixels=("pixel_values", "image_grid_thw"),
        video=partial(as_pairs, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        limit_videos=qwen_vl.limit_qwen3_videos,
    )
