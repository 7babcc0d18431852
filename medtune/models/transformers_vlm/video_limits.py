"""Limits the pixels of videos of Qwen-VL as qwen-vl-utils does."""

from typing import Any

FRAME_TOKENS = 768
"""Largest number of visual tokens of a pair of frames where the recipe sets no limit.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, VIDEO_MAX_PIXELS = 768 * 28 * 28 (VIDEO_MAX_TOKEN_NUM in later versions).
"""
CONTEXT_SHARE = 0.9
"""Largest share of the model's context that the visual tokens of a video take.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, VIDEO_TOTAL_PIXELS = 128000 * 28 * 28 * 0.9; transformers' video processors.
"""
MODEL_CONTEXT = 128000
"""Largest context that the limit for a whole video counts on, even where a model reads more.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, MODEL_SEQ_LEN.
"""


def limit_qwen2_videos(processor: Any, max_pixels: int | None, max_tokens: int) -> None:
    """Limits the pixels of videos as qwen-vl-utils does, for Qwen2-VL and Qwen2.5-VL.

    Args:
        max_pixels: Largest number of pixels of a frame; None takes the vendor's, or the processor's where it is lower.
    """
    video, side = processor.video_processor, _side(processor.video_processor)
    size = dict(video.size)
    most = _checked(max_pixels, size["shortest_edge"]) or min(FRAME_TOKENS * side**2, size["longest_edge"])
    video.size = {**size, "longest_edge": max(most, size["shortest_edge"])}
    video.cap_pixels_per_frame = True
    video.max_video_tokens = min(MODEL_CONTEXT, max_tokens)


def limit_qwen3_videos(processor: Any, max_pixels: int | None, max_tokens: int) -> None:
    """Limits pixels of videos as qwen-vl-utils does, for Qwen3-VL, whose processor counts those of whole videos."""
    video, side = processor.video_processor, _side(processor.video_processor)
    size = dict(video.size)
    whole = int(min(MODEL_CONTEXT, max_tokens) * CONTEXT_SHARE) * side**2 * video.temporal_patch_size
    video.size = {**size, "longest_edge": max(min(whole, size["longest_edge"]), size["shortest_edge"])}
    video.cap_pixels_per_frame = True
    asked = _checked(max_pixels, size["shortest_edge"])
    video.max_video_tokens = FRAME_TOKENS if asked is None else asked // side**2


def _side(video_processor: Any) -> int:
    return int(video_processor.patch_size * video_processor.merge_size)


def _checked(max_pixels: int | None, lowest: int) -> int | None:
    if max_pixels is not None and max_pixels < lowest:
        raise ValueError(f"model.video_max_pixels is {max_pixels}; the processor wants at least {lowest}")
    return max_pixels
