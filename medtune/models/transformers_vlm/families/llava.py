"""The family of LLaVA-1.5; the frames of a video are shown as images."""

from __future__ import annotations

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_images
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("llava",),
        wiring=in_sequence(parts("model.vision_tower", "model.multi_modal_projector"), decoder=language_model),
        sequence=visual_placeholders.llava,
        pixels=("pixel_values",),
        video=as_images,
    )
