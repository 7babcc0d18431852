"""The family of LLaVA-NeXT-Video.

Images are cut into tiles, with line breaks between their rows; the frames of a video are pooled to a quarter of their
tokens.
"""

from __future__ import annotations

from functools import partial

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_video
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    projector = ("model.vision_resampler", "model.multi_modal_projector", "model.image_newline")
    return Family(
        model_types=("llava_next_video",),
        wiring=in_sequence(parts("model.vision_tower", *projector), decoder=language_model),
        sequence=visual_placeholders.llava_next_video,
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
    )
