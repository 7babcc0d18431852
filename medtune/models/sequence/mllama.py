"""Lays out an image and a question for Llama-3.2-Vision, with a single token where the image belongs.

The image's features are not part of the sequence; cross-attention layers read them.
"""

from typing import Any

from medtune.models.sequence.placement import Placement
from medtune.models.sequence.processor_template import MediaText, ProcessorTemplate, Writing, Written

IMAGE = "<|image|>"


def family(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a Llama-3.2-Vision processor."""
    written = Written(IMAGE, (Placement((0,), 1),))
    image = MediaText(content="image", marker=IMAGE, token=IMAGE, write=lambda size: written)
    return ProcessorTemplate(processor, writing=Writing(image), max_tokens=max_tokens)
