"""The family of Qwen3-VL.

Its first decoder layers add intermediate features of the tower to their states at the visual tokens (DeepStack).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from medtune.data.types import Video
from medtune.models.sequence import qwen_vl
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.visual_tokens import VisualTokens, in_sequence, rows_of
from medtune.models.transformers_vlm.wiring import Pixels, Step


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
        video=_as_video,
        any_size=True,
        limit_videos=qwen_vl.limit_qwen3_videos,
    )


def _as_video(processor: Any, video: Video) -> Pixels:
    """Returns the tower's input for a video; a single frame is shown twice, because the processor takes no fewer."""
    merged = processor.video_processor.temporal_patch_size
    short = merged - len(video.times_s)
    if short > 0:
        frames_THWC = np.concatenate([video.frames_THWC, np.repeat(video.frames_THWC[-1:], short, axis=0)])
        video = Video(frames_THWC, (*video.times_s, *video.times_s[-1:] * short))
    return as_video(processor, video, names=("pixel_values_videos", "video_grid_thw"))


def _deepstack(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    """Returns the tower's intermediate features, which the first decoder layers add at the visual tokens."""
    if encoded is None or not bool(step.media_BL.any()):
        return {}
    deep = [rows_of(layer, step) for layer in encoded.deep]
    return {"visual_pos_masks": step.media_BL, "deepstack_visual_embeds": deep}
