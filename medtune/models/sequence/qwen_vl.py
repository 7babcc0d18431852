"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL on images: tokens by the image's size, positions on three axes (M-RoPE).

Source: Wang et al. 2024, arXiv 2409.12191, section 2.1; checked against transformers' `get_rope_index`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

from medtune.data.images import Size
from medtune.models.sequence.templated import ImageText, Placement, Templated

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def family(processor: Any, *, max_tokens: int) -> Templated:
    """Returns the sequence family of a Qwen-VL processor."""
    image = ImageText(
        marker=IMAGE,
        written=IMAGE,
        token="<|image_pad|>",
        place=partial(place, image_processor=processor.image_processor),
        axes=3,
    )
    return Templated(processor, image=image, max_tokens=max_tokens)


def place(size: Size, *, image_processor: Any) -> Placement:
    """Returns the grid of merged patches: row and column count from the image's first position, time stands still.

    Raises:
        ValueError: The image is too narrow (1 to 200).
    """
    side = image_processor.patch_size * image_processor.merge_size
    height, width = smart_resize(
        size.height,
        size.width,
        factor=side,
        min_pixels=image_processor.size["shortest_edge"],
        max_pixels=image_processor.size["longest_edge"],
    )
    rows, columns = height // side, width // side
    return Placement(
        offsets=tuple((0, row, column) for row in range(rows) for column in range(columns)),
        advance=max(rows, columns),
    )
