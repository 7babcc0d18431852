"""The families of released models, one function each.

Shape legend of mllama: M images, B rows, L new tokens, I images of a row, T tiles, P patches of one tile, E embedding
width.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel

from medtune.models.features.kept_features import Kept
from medtune.models.placing import placed
from medtune.models.transformers_vlm.family import Family, Pixels, Step, Wiring, language_model, parts
from medtune.models.transformers_vlm.media import as_images, as_pairs, as_tiles, as_video
from medtune.models.transformers_vlm.video_limits import limit_qwen2_videos, limit_qwen3_videos
from medtune.models.transformers_vlm.visual_tokens import VisualTokens, in_sequence, rows_of

_TOWER, _PROJECTOR, _NEWLINE = "model.vision_tower", "model.multi_modal_projector", "model.image_newline"
_IN_MERGER = parts("model.visual", "model.visual.merger")
_GRID = ("pixel_values", "image_grid_thw")
_PAIRS = partial(as_pairs, names=("pixel_values_videos", "video_grid_thw"))


def llava() -> Family:
    """The family of LLaVA-1.5; the frames of a video are shown as images."""
    return Family(
        model_types=("llava",),
        # Pixtral has the same type, and its tower takes pictures of any size and writes a break behind each row.
        towers=("clip_vision_model", "siglip_vision_model", "siglip2_vision_model"),
        wiring=in_sequence(parts(_TOWER, _PROJECTOR), decoder=language_model),
        pixels=("pixel_values",),
        video=as_images,
        frames_as_images=True,
    )


def llava_next_video() -> Family:
    """The family of LLaVA-NeXT-Video.

    Images are cut into tiles, with line breaks between their rows; the frames of a video are pooled to a quarter of
    their tokens.
    """
    return Family(
        model_types=("llava_next_video",),
        wiring=in_sequence(parts(_TOWER, "model.vision_resampler", _PROJECTOR, _NEWLINE), decoder=language_model),
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
    )


def llava_onevision() -> Family:
    """The family of LLaVA-OneVision; the embedding of its line breaks is a parameter that belongs to the projector."""
    return Family(
        model_types=("llava_onevision",),
        wiring=in_sequence(parts(_TOWER, _PROJECTOR, _NEWLINE), decoder=language_model),
        pixels=("pixel_values", "image_sizes"),
        video=partial(as_video, names=("pixel_values_videos",)),
        one_item=True,
    )


def internvl() -> Family:
    """The family of InternVL3 and InternVL3.5 in their `-hf` checkpoints; the frames of a video are shown as tiles."""
    return Family(
        model_types=("internvl",),
        wiring=in_sequence(parts(_TOWER, _PROJECTOR), decoder=language_model),
        pixels=("pixel_values",),
        video=as_tiles,
    )


def gemma3() -> Family:
    """The family of Gemma 3 and MedGemma.

    The projection is a bare parameter, not a linear layer, so that LoRA cannot adapt it; only `full` tuning trains it.
    """
    return Family(
        model_types=("gemma3",),
        wiring=in_sequence(parts(_TOWER, _PROJECTOR), decoder=_decoder_of_gemma, shown=_token_types, blocks=True),
        pixels=("pixel_values",),
        video=as_images,
        frames_as_images=True,
    )


def _decoder_of_gemma(whole: PreTrainedModel) -> nn.Module:
    return whole.get_submodule("model")


def _token_types(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    if step.has_columns or not bool(step.media_BL.any()):
        return {}
    return {"token_type_ids": placed(step.media_BL, step.ids_BL.device).long()}


def glm4v() -> Family:
    """The family of GLM-4.1V and GLM-4.6V-Flash, and of GLM-4.5V and GLM-4.6V with their experts."""
    return Family(
        model_types=("glm4v", "glm46v", "glm4v_moe"),
        wiring=in_sequence(_IN_MERGER, decoder=language_model),
        on_grids=True,
        pixels=_GRID,
        video=_PAIRS,
        any_size=True,
        image_frames=2,
    )


def qwen2_vl() -> Family:
    """The family of Qwen2-VL and Qwen2.5-VL, to which Lingshu belongs."""
    return Family(
        model_types=("qwen2_vl", "qwen2_5_vl"),
        wiring=in_sequence(_IN_MERGER, decoder=language_model),
        on_grids=True,
        pixels=_GRID,
        video=partial(as_video, names=("pixel_values_videos", "video_grid_thw")),
        any_size=True,
        limit_videos=limit_qwen2_videos,
    )


def qwen3_vl() -> Family:
    """The family of Qwen3-VL.

    Its first decoder layers add intermediate features of the tower to their states at the visual tokens (DeepStack).
    """
    return Family(
        model_types=("qwen3_vl", "qwen3_vl_moe"),
        wiring=in_sequence(
            parts("model.visual", "model.visual.merger", "model.visual.deepstack_merger_list"),
            decoder=language_model,
            shown=_deepstack,
        ),
        on_grids=True,
        pixels=_GRID,
        video=_PAIRS,
        any_size=True,
        limit_videos=limit_qwen3_videos,
    )


def _deepstack(step: Step, encoded: VisualTokens | None) -> dict[str, Any]:
    if encoded is None or not bool(step.media_BL.any()):
        return {}
    deep = [rows_of(layer, step) for layer in encoded.deep]
    return {"visual_pos_masks": placed(step.media_BL, step.ids_BL.device), "deepstack_visual_embeds": deep}


def qwen3_5() -> Family:
    """The family of Qwen3.5, whose decoder mixes gated delta nets with attention; media are written as for Qwen3-VL."""
    return Family(
        model_types=("qwen3_5", "qwen3_5_moe"),
        wiring=in_sequence(
            _IN_MERGER,
            decoder=language_model,
            plain_because="its gated delta nets carry a state from token to token, which no mask divides",
        ),
        on_grids=True,
        pixels=_GRID,
        video=_PAIRS,
        any_size=True,
        limit_videos=limit_qwen3_videos,
    )


class TileStates(NamedTuple):
    """The states of images that cross-attention layers attend to."""

    states_MTPE: Tensor  # Projected features of every tile, padding tiles included.
    is_tile_MT: Tensor  # bool, True where a tile is part of the image, False at padding tiles.

    def parted(self) -> list[Kept]:
        return list(zip(self.states_MTPE, self.is_tile_MT, strict=True))

    @classmethod
    def joined(cls, items: Sequence[Kept]) -> Self:
        return cls(*map(torch.stack, zip(*items, strict=True)))


def mllama() -> Family:
    """The family of Llama-3.2-Vision: images stand beside the row, and cross-attention layers attend to them."""
    return Family(
        model_types=("mllama",),
        wiring=Wiring(
            roots=parts("model.vision_model", "model.multi_modal_projector"),
            encode=_encode_tiles,
            hidden=_hidden_beside,
            encoded=TileStates,
            attends=True,
        ),
        pixels=("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask"),
    )


def _encode_tiles(whole: PreTrainedModel, media: Sequence[Pixels]) -> TileStates:
    model: Any = whole.model
    joined = {name: torch.cat([one[name] for one in media]) for name in media[0]}
    features_MITPD = model.vision_model(**joined).last_hidden_state
    # Each item holds one image, so the axis I has length 1.
    states_MTPE = model.multi_modal_projector(features_MITPD[:, 0])
    return TileStates(states_MTPE, joined["aspect_ratio_mask"][:, 0].bool())


def _hidden_beside(whole: PreTrainedModel, step: Step, encoded: TileStates | None, cache: Cache | None) -> Tensor:
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
