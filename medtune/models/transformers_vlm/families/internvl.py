"""The family of InternVL3 and InternVL3.5 in their `-hf` checkpoints; the frames of a video are shown as tiles."""

from __future__ import annotations

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_tiles
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("internvl",),
        wiring=in_sequence(parts("model.vision_tower", "model.multi_modal_projector"), decoder=language_model),
        sequence=visual_placeholders.internvl,
        pixels=("pixel_values",),
        video=as_tiles,
    )
