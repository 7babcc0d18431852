"""Lays out media and questions for Qwen-VL and GLM-4.xV, whose positions have three axes: time, row and column.

Qwen2-VL and Qwen2.5-VL write a video as one run of tokens. Its time axis counts pairs of frames in Qwen2-VL, and time
units of the clip in Qwen2.5-VL. Qwen3-VL writes each pair of frames as a run of its own, behind a text with its time.
GLM-4.1V and GLM-4.6V write a video as images, one for each pair of frames, and behind each of them its time; all their
visual tokens are image tokens.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from transformers.models.glm4v.image_processing_glm4v import smart_resize as smart_resize_pairs
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
from transformers.models.qwen2_vl.video_processing_qwen2_vl import smart_resize as smart_resize_frame
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as smart_resize_video

from medtune.data.types import Frames, Size
from medtune.models.sequence.builder import Placement
from medtune.models.sequence.processor_template import MediaText, ProcessorTemplate, Writing, Written

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
_VIDEO_TOKEN = "<|video_pad|>"
FRAME_TOKENS = 768
"""Largest number of visual tokens of a pair of frames where the recipe sets no limit.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, VIDEO_MAX_PIXELS = 768 * 28 * 28 (VIDEO_MAX_TOKEN_NUM in later versions).
"""
CONTEXT_SHARE = 0.9
"""Largest share of the model's context that the visual tokens of a video take.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, VIDEO_TOTAL_PIXELS = 128000 * 28 * 28 * 0.9; transformers' video processors.
"""
FLOOR = 1.05
"""The limit for a frame is never below this multiple of the processor's lower limit.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, `fetch_video`; transformers' video processors.
"""
MODEL_CONTEXT = 128000
"""Largest context that the limit for a whole video counts on, even where a model reads more.

Source: QwenLM/Qwen3-VL, qwen-vl-utils, MODEL_SEQ_LEN.
"""


class Grid(NamedTuple):
    """The numbers of rows and columns of merged patches in an image or a frame."""

    rows: int
    columns: int


def qwen2_vl(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a Qwen2-VL or Qwen2.5-VL processor."""
    tokens_per_s = getattr(config.vision_config, "tokens_per_second", None)
    write = partial(_one_run, video_processor=processor.video_processor, tokens_per_s=tokens_per_s)
    return _family(processor, MediaText("video", VIDEO, _VIDEO_TOKEN, write), max_tokens)


def qwen3_vl(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a Qwen3-VL processor."""
    write = partial(_run_per_pair, video_processor=processor.video_processor)
    return _family(processor, MediaText("video", _VIDEO_TOKEN, _VIDEO_TOKEN, write), max_tokens)


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


def _family(processor: Any, video: MediaText[Frames], max_tokens: int) -> ProcessorTemplate:
    image = MediaText("image", IMAGE, "<|image_pad|>", partial(_image, image_processor=processor.image_processor))
    return ProcessorTemplate(processor, writing=Writing(image, video, axes=3), max_tokens=max_tokens)


def _image(size: Size, *, image_processor: Any) -> Written:
    side = image_processor.patch_size * image_processor.merge_size
    limits = image_processor.size
    height, width = smart_resize(
        size.height, size.width, factor=side, min_pixels=limits["shortest_edge"], max_pixels=limits["longest_edge"]
    )
    return Written(IMAGE, (placed(Grid(height // side, width // side), (0,)),))


def _one_run(shape: Frames, *, video_processor: Any, tokens_per_s: float | None) -> Written:
    side = video_processor.patch_size * video_processor.merge_size
    limits, merged = video_processor.size, video_processor.temporal_patch_size
    most = limits["longest_edge"]
    if video_processor.cap_pixels_per_frame:
        budget = int(video_processor.max_video_tokens * side**2 * CONTEXT_SHARE) * merged // len(shape.times_s)
        most = max(min(most, budget), int(limits["shortest_edge"] * FLOOR))
    height, width = smart_resize_frame(
        shape.size.height, shape.size.width, factor=side, min_pixels=limits["shortest_edge"], max_pixels=most
    )
    numbers = np.arange(math.ceil(len(shape.times_s) / merged))
    if tokens_per_s is not None:
        # The times are rounded down in single precision, as in transformers.
        numbers = (numbers * np.float32(tokens_per_s * np.float32(seconds_per_pair(shape, merged)))).astype(np.int64)
    return Written(VIDEO, (placed(Grid(height // side, width // side), tuple(numbers.tolist())),))


def _run_per_pair(shape: Frames, *, video_processor: Any) -> Written:
    side, merged = video_processor.patch_size * video_processor.merge_size, video_processor.temporal_patch_size
    # A single frame is shown twice, because the tower takes pairs.
    limits, num_frames = video_processor.size, max(len(shape.times_s), merged)
    most = limits["longest_edge"]
    if video_processor.cap_pixels_per_frame:
        share = min(video_processor.max_video_tokens * side**2, most // num_frames)
        most = max(share, int(limits["shortest_edge"] * FLOOR)) * num_frames
    height, width = smart_resize_video(
        num_frames,
        shape.size.height,
        shape.size.width,
        temporal_factor=merged,
        factor=side,
        min_pixels=limits["shortest_edge"],
        max_pixels=most,
    )
    elapsed_s = [time_s - shape.times_s[0] for time_s in shape.times_s]
    elapsed_s += [elapsed_s[-1]] * (-len(elapsed_s) % merged)
    pairs_s = [(elapsed_s[n] + elapsed_s[n + merged - 1]) / 2 for n in range(0, len(elapsed_s), merged)]
    run = placed(Grid(height // side, width // side), (0,))
    return Written("".join(f"<{time_s:.1f} seconds>{VIDEO}" for time_s in pairs_s), (run,) * len(pairs_s))


def seconds_per_pair(shape: Frames, merged: int) -> float:
    """Returns the seconds that `merged` frames last at the clip's mean rate; 1 for a single frame."""
    lasts_s = shape.times_s[-1] - shape.times_s[0]
    return merged * lasts_s / (len(shape.times_s) - 1) if lasts_s else 1.0


def placed(grid: Grid, times: tuple[int, ...]) -> Placement:
    """Returns the positions of a grid at each of the times, relative to the first visual token."""
    return Placement(
        offsets=tuple((t, row, column) for t in times for row in range(grid.rows) for column in range(grid.columns)),
        advance=max(grid),
    )


_CLOCK_DIGITS = 6
"""Digits to which seconds are rounded before the processor cuts them: 2.9999999 s is 3 s."""


def glm_vl(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a GLM-4.xV processor."""
    image = MediaText("image", processor.image_token, processor.image_token, partial(_glm_image, processor=processor))
    video = MediaText("video", processor.video_token, processor.image_token, partial(_glm_video, processor=processor))
    return ProcessorTemplate(processor, writing=Writing(image, video, axes=3), max_tokens=max_tokens)


def _glm_image(size: Size, *, processor: Any) -> Written:
    # The processor shows an image as a pair of equal frames, and its limits count the pixels of both.
    run = _glm_run(size, processor.image_processor, frames=processor.image_processor.temporal_patch_size)
    return Written(processor.image_token, (run,))


def _glm_video(shape: Frames, *, processor: Any) -> Written:
    merged = processor.video_processor.temporal_patch_size
    # A single frame is shown twice, because the tower takes pairs.
    run = _glm_run(shape.size, processor.video_processor, frames=max(len(shape.times_s), merged))
    elapsed_s = [round(time_s - shape.times_s[0], _CLOCK_DIGITS) for time_s in shape.times_s[::merged]]
    text = "".join(processor.replace_frame_token_id(time_s, num_image_tokens=1) for time_s in elapsed_s)
    return Written(text, (run,) * len(elapsed_s))


def _glm_run(size: Size, scaling: Any, *, frames: int) -> Placement:
    """Returns the positions of one picture.

    Args:
        frames: Number of frames whose pixels the processor's limits count.
    """
    side, limits = scaling.patch_size * scaling.merge_size, scaling.size
    height, width = smart_resize_pairs(
        frames,
        size.height,
        size.width,
        temporal_factor=scaling.temporal_patch_size,
        factor=side,
        min_pixels=limits["shortest_edge"],
        max_pixels=limits["longest_edge"],
    )
    return placed(Grid(height // side, width // side), (0,))
