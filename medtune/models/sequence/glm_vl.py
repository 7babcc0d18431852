"""Lays out media and questions for GLM-4.1V and GLM-4.6V, whose positions have Qwen-VL's three axes.

A video is written as images, one for each pair of frames, and behind each of them stands its time. All visual tokens
are image tokens.
"""

from functools import partial
from typing import Any

from transformers.models.glm4v.image_processing_glm4v import smart_resize

from medtune.data.media.images import Size
from medtune.data.media.videos.read import Frames
from medtune.models.sequence.builder import Placement
from medtune.models.sequence.processor_template import MediaText, ProcessorTemplate, Writing, Written
from medtune.models.sequence.qwen_vl import Grid, placed

_CLOCK_DIGITS = 6
"""Digits to which seconds are rounded before the processor cuts them: 2.9999999 s is 3 s."""


def family(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a GLM-4.xV processor."""
    image = MediaText("image", processor.image_token, processor.image_token, partial(_image, processor=processor))
    video = MediaText("video", processor.video_token, processor.image_token, partial(_video, processor=processor))
    return ProcessorTemplate(processor, writing=Writing(image, video, axes=3), max_tokens=max_tokens)


def _image(size: Size, *, processor: Any) -> Written:
    # The processor shows an image as a pair of equal frames, and its limits count the pixels of both.
    run = _run(size, processor.image_processor, frames=processor.image_processor.temporal_patch_size)
    return Written(processor.image_token, (run,))


def _video(shape: Frames, *, processor: Any) -> Written:
    merged = processor.video_processor.temporal_patch_size
    # A single frame is shown twice, because the tower takes pairs.
    run = _run(shape.size, processor.video_processor, frames=max(len(shape.times_s), merged))
    elapsed_s = [round(time_s - shape.times_s[0], _CLOCK_DIGITS) for time_s in shape.times_s[::merged]]
    text = "".join(processor.replace_frame_token_id(time_s, num_image_tokens=1) for time_s in elapsed_s)
    return Written(text, (run,) * len(elapsed_s))


def _run(size: Size, scaling: Any, *, frames: int) -> Placement:
    """Returns the positions of one picture.

    Args:
        frames: Number of frames whose pixels the processor's limits count.
    """
    side, limits = scaling.patch_size * scaling.merge_size, scaling.size
    height, width = smart_resize(
        frames,
        size.height,
        size.width,
        temporal_factor=scaling.temporal_patch_size,
        factor=side,
        min_pixels=limits["shortest_edge"],
        max_pixels=limits["longest_edge"],
    )
    return placed(Grid(height // side, width // side), (0,))
