"""InternVL3 and 3.5, the `-hf` checkpoints; a video's frames are shown as tiles."""

from __future__ import annotations

from medtune.models.sequence import placeholder
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.in_sequence import in_sequence
from medtune.models.transformers_vlm.media import as_tiles


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("internvl",),
        wiring=in_sequence(parts("model.vision_tower", "model.multi_modal_projector"), decoder=language_model),
        sequence=placeholder.internvl,
        pixels=("pixel_values",),
        video=as_tiles,
    )
