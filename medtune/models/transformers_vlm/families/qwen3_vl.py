"""The family of Qwen3-VL.

Its first decoder layers add intermediate features of the tower to their states at the visual tokens (DeepStack).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from medtune.models.placing import placed
from medtune.models.sequence import qwen_vl
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_pairs
from medtune.models.transformers_vlm.visual_tokens import VisualTokens, in_sequence, rows_of
from medtune.models.transformers_vlm.wiring import Step


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("qwen3_vl",),
        wiring=in_sequence(
            parts("model.visual", "model.visual.merger", "model.visual.deepstack_merger_list"),
            decoder=language_model,
            shown=_deepstack,
        ),
        sequence=qwen_vl.qwen3_vl,
        pixels=("pixel_values", "image_grid_thw"),
        video=partial(as_pairs, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        limit_videos=qwen_vl.limit_qwen3_videos,
    )


def _deepstack(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    """Returns the tower's intermediate features, which the first decoder layers add at the visual tokens."""
    if encoded is None or not bool(step.media_BL.any()):
        return {}
    deep = [rows_of(layer, step) for layer in encoded.deep]
    return {"visual_pos_masks": placed(step.media_BL, step.ids_BL.device), "deepstack_visual_embeds": deep}
