"""The family of GLM-4.1V and GLM-4.6V-Flash.

GLM-4.5V and the large GLM-4.6V (type glm4v_moe) are no members: peft 0.21 gives the layers of a mixture of experts
other names and drops adapters of its dense layers, so that no adapter of them could be proven.
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
        model_types=("glm4v", "glm46v"),
        wiring=in_sequence(parts("model.visual", "model.visual.merger"), decoder=language_model),
        sequence=glm_vl.family,
        pixels=("pixel_values", "image_grid_thw"),
        video=partial(as_pairs, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        image_frames=2,
    )
