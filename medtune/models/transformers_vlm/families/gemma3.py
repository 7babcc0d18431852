"""The family of Gemma 3 and MedGemma.

The projection is a bare parameter, not a linear layer, so that LoRA cannot adapt it; only `full` tuning trains it.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from medtune.models.placing import placed
from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, parts
from medtune.models.transformers_vlm.media import as_images
from medtune.models.transformers_vlm.visual_tokens import VisualTokens, in_sequence
from medtune.models.transformers_vlm.wiring import Step


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("gemma3",),
        wiring=in_sequence(
            parts("model.vision_tower", "model.multi_modal_projector"),
            decoder=_decoder,
            shown=_token_types,
            blocks=True,
        ),
        sequence=visual_placeholders.gemma3,
        pixels=("pixel_values",),
        video=as_images,
    )


def _decoder(whole: PreTrainedModel) -> nn.Module:
    return whole.get_submodule("model")


def _token_types(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    """Returns the mask of the visual tokens, which see one another both ways; columns say so themselves."""
    if step.has_columns or not bool(step.media_BL.any()):
        return {}
    return {"token_type_ids": placed(step.media_BL, step.ids_BL.device).long()}
