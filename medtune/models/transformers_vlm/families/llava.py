"""LLaVA-1.5; a video is shown as so many images."""

from __future__ import annotations

from medtune.models.sequence import placeholder
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.in_sequence import in_sequence
from medtune.models.transformers_vlm.media import as_images


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("llava",),
        wiring=in_sequence(parts("model.vision_tower", "model.multi_modal_projector"), decoder=language_model),
        sequence=placeholder.llava,
        pixels=("pixel_values",),
        video=as_images,
    )
