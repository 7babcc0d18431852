"""The family of LLaVA-OneVision; the embedding of its line breaks is a parameter that belongs to the projector."""

from __future__ import annotations

from functools import partial

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("llava_onevision",),
        wiring=in_sequence(
            parts("model.vision_tower", "model.multi_modal_projector", "model.image_newline"), decoder=language_model
        ),
        sequence=visual_placeholders.llava_onevision,
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
        one_item=True,
    )
