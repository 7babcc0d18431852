"""LLaVA, InternVL and Gemma: one placeholder per visual token, counted by the processor, positions in one row."""

from __future__ import annotations

from typing import Any

from medtune.data.images import Size
from medtune.models.sequence.templated import ImageText, Placement, Templated


def llava(processor: Any, *, max_tokens: int) -> Templated:
    """Returns the sequence family of a LLaVA-1.5 or LLaVA-OneVision processor."""
    token = processor.image_token
    return _family(processor, marker=token, written=token, token=token, around=0, max_tokens=max_tokens)


def internvl(processor: Any, *, max_tokens: int) -> Templated:
    """Returns the sequence family of an InternVL processor; the processor counts the two tags around an image."""
    token = processor.image_token
    written = f"{processor.start_image_token}{token}{processor.end_image_token}"
    return _family(processor, marker=token, written=written, token=token, around=2, max_tokens=max_tokens)


def gemma3(processor: Any, *, max_tokens: int) -> Templated:
    """Returns the sequence family of a Gemma 3 (MedGemma) processor."""
    tokenizer = processor.tokenizer
    token, opening = tokenizer.image_token, tokenizer.boi_token
    written = f"\n\n{opening}{token}{tokenizer.eoi_token}\n\n"
    return _family(processor, marker=opening, written=written, token=token, around=0, max_tokens=max_tokens)


def _family(processor: Any, *, marker: str, written: str, token: str, around: int, max_tokens: int) -> Templated:
    def place(size: Size) -> Placement:
        counted = processor._get_num_multimodal_tokens(image_sizes=[(size.height, size.width)])
        count = counted["num_image_tokens"][0] - around
        return Placement(tuple(range(count)), count)

    image = ImageText(marker=marker, written=written, token=token, place=place)
    return Templated(processor, image=image, max_tokens=max_tokens)
