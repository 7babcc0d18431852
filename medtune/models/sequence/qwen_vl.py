"""Lays out media and questions for Qwen-VL models, whose positions have three axes: time, row and column.

Qwen2-VL and Qwen2.5-VL write a video as one run of tokens. Its time axis counts pairs of frames in Qwen2-VL, and time
units of the clip in Qwen2.5-VL. Qwen3-VL writes each pair of frames as a run of its own, behind a text with its time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as smart_resize_video

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Frames
from medtune.models.sequence.processor_template import MediaText, Placement, ProcessorTemplate, Writing, Written

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
_VIDEO_TOKEN = "<|video_pad|>"


class _Grid(NamedTuple):
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


def _family(processor: Any, video: MediaText[Frames], max_tokens: int) -> ProcessorTemplate:
    image = MediaText("image", IMAGE, "<|image_pad|>", partial(_image, image_processor=processor.image_processor))
    return ProcessorTemplate(processor, writing=Writing(image, video, axes=3), max_tokens=max_tokens)


def _image(size: Size, *, image_processor: Any) -> Written:
    """Returns the text of an image.

    Raises:
        ValueError: One side of the image is more than 200 times as long as the other.
    """
    side = image_processor.patch_size * image_processor.merge_size
    limits = image_processor.size
    height, width = smart_resize(
        size.height, size.width, factor=side, min_pixels=limits["shortest_edge"], max_pixels=limits["longest_edge"]
    )
    return Written(IMAGE, (_placed(_Grid(height // side, width // side), (0,)),))


def _one_run(shape: Frames, *, video_processor: Any, tokens_per_s: float | None) -> Written:
    side = video_processor.patch_size * video_processor.merge_size
    limits = video_processor.size
    height, width = smart_resize(
        shape.size.height,
        shape.size.width,
        factor=side,
        min_pixels=limits["shortest_edge"],
        max_pixels=limits["longest_edge"],
    )
    merged = video_processor.temporal_patch_size
    numbers = np.arange(math.ceil(len(shape.times_s) / merged))
    if tokens_per_s is not None:
        # The times are rounded down in single precision, as in transformers.
        numbers = (numbers * np.float32(tokens_per_s * np.float32(seconds_per_pair(shape, merged)))).astype(np.int64)
    return Written(VIDEO, (_placed(_Grid(height // side, width // side), tuple(numbers.tolist())),))


def _run_per_pair(shape: Frames, *, video_processor: Any) -> Written:
    side, merged = video_processor.patch_size * video_processor.merge_size, video_processor.temporal_patch_size
    limits, num_frames = video_processor.size, len(shape.times_s)
    height, width = smart_resize_video(
        num_frames,
        shape.size.height,
        shape.size.width,
        temporal_factor=merged,
        factor=side,
        min_pixels=limits["shortest_edge"],
        max_pixels=limits["longest_edge"],
    )
    elapsed_s = [time_s - shape.times_s[0] for time_s in shape.times_s]
    elapsed_s += [elapsed_s[-1]] * (-num_frames % merged)
    pairs_s = [(elapsed_s[n] + elapsed_s[n + merged - 1]) / 2 for n in range(0, len(elapsed_s), merged)]
    run = _placed(_Grid(height // side, width // side), (0,))
    return Written("".join(f"<{time_s:.1f} seconds>{VIDEO}" for time_s in pairs_s), (run,) * len(pairs_s))


def seconds_per_pair(shape: Frames, merged: int) -> float:
    """Returns the seconds that `merged` frames last at the clip's mean rate; 1 for a single frame."""
    lasts_s = shape.times_s[-1] - shape.times_s[0]
    return merged * lasts_s / (len(shape.times_s) - 1) if lasts_s else 1.0


def _placed(grid: _Grid, times: tuple[int, ...]) -> Placement:
    """Returns the positions of a grid at each of the times, relative to the first visual token."""
    return Placement(
        offsets=tuple((t, row, column) for t in times for row in range(grid.rows) for column in range(grid.columns)),
        advance=max(grid),
    )
