"""The family of GLM-4.1V, GLM-4.5V (a mixture of experts) and GLM-4.6V.

The experts of a layer are two bare parameters, not linear layers, so that LoRA cannot adapt them; it adapts attention,
the shared expert and the dense layers.
"""

from __future__ import annotations

from functools import partial

from medtune.models.sequence import glm_vl
from medtune.models.transformers_vlm.family import Family, language_model, parts
from medtune.models.transformers_vlm.media import as_pairs
from medtune.models.transformers_vlm.visual_tokens import in_sequence


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("glm4v", "glm4v_moe", "glm46v"),
        wiring=in_sequence(parts("model.visual", "model.visual.merger"), decoder=language_model),
        sequence=glm_vl.family,
        pixels=("pixel_values", "image_grid_thw"),
        video=partial(as_pairs, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        image_frames=2,
    )
