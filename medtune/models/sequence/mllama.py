"""Llama-3.2-Vision: one token says that there is an image; the image itself stands beside the row."""

from __future__ import annotations

from typing import Any

from medtune.models.sequence.templated import ImageText, Placement, Templated

IMAGE = "<|image|>"


def family(processor: Any, *, max_tokens: int) -> Templated:
    """Returns the sequence family of a Llama-3.2-Vision processor."""
    image = ImageText(marker=IMAGE, written=IMAGE, token=IMAGE, place=lambda size: Placement((0,), 1))
    return Templated(processor, image=image, max_tokens=max_tokens)
