"""The family of Llama-3.2-Vision: the image stands beside the row, and cross-attention layers attend to it.

Shape legend: M images, B rows, L new tokens, I images of a row, T tiles, P patches of one tile, E embedding width.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel

from medtune.models.sequence import visual_placeholders
from medtune.models.transformers_vlm.family import Family, Pixels, Step, Wiring, parts


class TileStates(NamedTuple):
    """The states of images that cross-attention layers attend to."""

    states_MTPE: Tensor  # Projected features of every tile, padding tiles included.
    is_tile_MT: Tensor  # bool, True where a tile is part of the image, False at padding tiles.


def family() -> Family:
    """Returns the family."""
    return Family(
        model_types=("mllama",),
        wiring=Wiring(
            roots=parts("model.vision_model", "model.multi_modal_projector"),
            encode=_encode,
            hidden=_hidden,
            attends=True,
        ),
        sequence=visual_placeholders.family,
        pixels=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
    )


def _encode(whole: PreTrainedModel, media: Sequence[Pixels]) -> TileStates:
    model: Any = whole.model
    joined = {name: torch.cat([one[name] for one in media]) for name in media[0]}
    features_MITPD = model.vision_model(**joined).last_hidden_state
    # Each item holds one image, so the axis I has length 1.
    states_MTPE = model.multi_modal_projector(features_MITPD[:, 0])
    return TileStates(states_MTPE, joined["aspect_ratio_mask"][:, 0].bool())


def _hidden(whole: PreTrainedModel, step: Step, encoded: TileStates | None, cache: Cache | None) -> Tensor:
    shown: dict[str, Tensor | None] = {}
    if encoded is not None and step.shows_media:
        # Rows with fewer images are filled up with the first one, to which none of their tokens attends.
        most = step.attends_BLS.shape[2]
        index_BI = torch.tensor([[span.media for span in row] + [0] * (most - len(row)) for row in step.spans])
        tiles_BIT = encoded.is_tile_MT[index_BI.to(encoded.is_tile_MT.device)]
        mask_BLIT = (step.attends_BLS.unsqueeze(3) & tiles_BIT.unsqueeze(1)).long()
        # When a reply is continued, the states are in the cache.
        first = bool(step.media_BL.any())
        states = encoded.states_MTPE[index_BI.to(encoded.states_MTPE.device)].flatten(1, 3) if first else None
        shown = {"cross_attention_states": states, "cross_attention_mask": mask_BLIT}
    model: Any = whole.model
    hidden_BLE: Tensor = model(
        input_ids=step.ids_BL,
        attention_mask=step.attention_mask(model.language_model),
        position_ids=step.positions_BL,
        past_key_values=cache,
        use_cache=cache is not None,
        **shown,
    ).last_hidden_state
    return hidden_BLE
