"""The wiring of families whose visual tokens stand in the row: Qwen-VL, GLM, LLaVA, InternVL and Gemma.

Shape legend: M images, P patches, B rows, L new tokens, N visual tokens of one image, X visual tokens of the rows,
E embedding width.

What towers of the Qwen-VL families compute from the sizes of pictures, made on the host, where the sizes are known.

transformers reads the sizes back from the device in every layer. Each such reading waits for all that was queued
before, so that the device runs out of work. The functions are transformers' own, and so are the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.vision_utils import (
    get_vision_cu_seqlens,
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
    get_vision_window_index,
)

from medtune.models.features.kept_features import Kept
from medtune.models.placing import placed
from medtune.models.transformers_vlm.family import Pixels, Step, Wiring, language_model
from medtune.models.tuning.plan import PartName

GRID = "_grid_thw"
"""The end of the names under which a processor gives the numbers of frames, rows and columns of patches."""
_SIZES = "image_sizes"
"""The name under which processors of LLaVA give the sizes of pictures, which the model reads for each."""
_TOWERS = frozenset(
    {
        "Qwen2VisionTransformerPretrainedModel",
        "Qwen2_5_VisionTransformerPretrainedModel",
        "Qwen3VLVisionModel",
        "Qwen3VLMoeVisionModel",
        "Qwen3_5VisionModel",
        "Qwen3_5MoeVisionModel",
    }
)
"""Towers that take what is made here. GLM's tower also computes with the sizes on the device."""


def stays_on_host(whole: PreTrainedModel, name: str) -> bool:
    """Returns whether an output of the processor stays in the host's memory, where the model reads its values."""
    return name == _SIZES or (name.endswith(GRID) and _takes_facts(whole))


def _takes_facts(whole: PreTrainedModel) -> bool:
    tower = getattr(whole.base_model, "visual", None)
    return any(kind.__name__ in _TOWERS for kind in type(tower).__mro__)


def from_grids(whole: PreTrainedModel, grid_M3: Tensor) -> dict[str, Any]:
    """Returns the arguments that a tower would compute from the sizes; none for other towers.

    The boundaries of segments stay on the host, where the attention reads them.
    """
    if not _takes_facts(whole):
        return {}
    tower: Any = whole.base_model.visual
    device = next(tower.parameters()).device
    merged = tower.spatial_merge_size
    made = {"position_ids": get_vision_position_ids(grid_M3, merged)}
    on_host = {"cu_seqlens": get_vision_cu_seqlens(grid_M3)}
    if hasattr(tower, "window_size"):
        made["window_index"], on_host["cu_window_seqlens"] = get_vision_window_index(
            grid_M3, spatial_merge_size=merged, window_size=tower.window_size, patch_size=tower.patch_size
        )
    if hasattr(tower, "interpolation_mode"):
        made["interp_indices"], made["interp_weights"] = get_vision_interpolation_indices_and_weights(
            grid_M3,
            num_grid_per_side=tower.num_grid_per_side,
            mode=tower.interpolation_mode,
            align_corners=tower.interpolation_align_corners,
            spatial_merge_size=merged,
        )
    return {name: placed(t, device) for name, t in made.items()} | on_host


@dataclass(frozen=True, slots=True)
class VisualTokens:
    """Visual tokens of several images."""

    tokens: tuple[Tensor, ...]  # A tensor (N, E) for each image; N may differ.
    # Features that Qwen3-VL's first decoder layers add to their states at the visual tokens: for each of these layers,
    # from the first on, a tensor (N, E) for each image. Empty for other families.
    deep: tuple[tuple[Tensor, ...], ...] = ()

    def parted(self) -> list[Kept]:
        return list(zip(self.tokens, *self.deep, strict=True))

    @classmethod
    def joined(cls, items: Sequence[Kept]) -> Self:
        tokens, *deep = zip(*items, strict=True)
        return cls(tokens, tuple(deep))


Shown = Callable[[Step, VisualTokens | None], dict[str, Any]]
"""A function that returns the decoder's arguments besides embeddings, mask and positions."""


def in_sequence(
    roots: Mapping[PartName, tuple[str, ...]],
    *,
    decoder: Callable[[PreTrainedModel], torch.nn.Module],
    shown: Shown = lambda step, encoded: {},
    blocks: bool = False,
    plain_because: str | None = None,
) -> Wiring:
    """Returns the wiring of a family.

    Args:
        roots: Names of the modules and parameters of the family's parts.
        decoder: Returns the module of the transformers model that takes embeddings and a mask of padding; columns go to
            its language model.
        shown: Returns the arguments of that module besides embeddings, mask and positions.
        blocks: Whether the tokens of an image see one another both ways.
        plain_because: Reason why the decoder cannot be told who sees whom; None where it takes columns.
    """

    def hidden(whole: PreTrainedModel, step: Step, encoded: VisualTokens | None, cache: Cache | None) -> Tensor:
        # transformers expects the three axes of M-RoPE first.
        positions = step.positions_BL if step.positions_BL.dim() == 2 else step.positions_BL.movedim(-1, 0)
        embeddings_BLE = _embed(whole, step, encoded)
        module = language_model(whole) if step.has_columns else decoder(whole)
        hidden_BLE: Tensor = module(
            inputs_embeds=embeddings_BLE,
            attention_mask=step.attention_mask(module, blocks=blocks),
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            **shown(step, encoded),
        ).last_hidden_state
        return hidden_BLE

    return Wiring(roots, _encode, hidden, VisualTokens, plain_because)


def _encode(whole: PreTrainedModel, media: Sequence[Pixels]) -> VisualTokens:
    if any("pixel_values_videos" in one for one in media):
        # Videos differ in length and may be mixed with images, so the items are encoded one after another.
        parts = [_encode_video(whole, one) if "pixel_values_videos" in one else _encode(whole, [one]) for one in media]
        layers_of_parts = zip(*(part.deep for part in parts), strict=True)
        deep_of_parts = tuple(tuple(each[0] for each in layer) for layer in layers_of_parts)
        return VisualTokens(tuple(part.tokens[0] for part in parts), deep_of_parts)
    given = {name: _joined([one[name] for one in media]) for name in media[0]}
    features: Any = whole.get_image_features(**given, **_of_grids(whole, given), return_dict=True)  # type: ignore[operator]
    tokens = features.pooler_output
    if isinstance(tokens, Tensor) or len(tokens) != len(media):
        # The model returns one entry per tile or frame, and an item may have several.
        tiles = iter(tokens)
        tokens = [torch.cat([next(tiles) for _ in one["pixel_values"]]) for one in media]
    counts = [len(one) for one in tokens]
    layers = getattr(features, "deepstack_features", None) or ()
    deep = tuple(tuple(torch.cat(tuple(layer)).split(counts)) for layer in layers)
    return VisualTokens(tuple(tokens), deep)


def _encode_video(whole: PreTrainedModel, one: Pixels) -> VisualTokens:
    features: Any = whole.get_video_features(**one, **_of_grids(whole, one), return_dict=True)  # type: ignore[operator]
    layers = getattr(features, "deepstack_features", None) or ()
    return VisualTokens(
        (torch.cat(tuple(features.pooler_output)),), tuple((torch.cat(tuple(layer)),) for layer in layers)
    )


def _of_grids(whole: PreTrainedModel, given: Pixels) -> dict[str, Any]:
    return next((from_grids(whole, grid) for name, grid in given.items() if name.endswith(GRID)), {})


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    if tensors[0].dim() == 5:
        tiles = max(tensor.shape[1] for tensor in tensors)
        tensors = [torch.nn.functional.pad(t, (0, 0) * 3 + (0, tiles - t.shape[1])) for t in tensors]
    return torch.cat(list(tensors))


def _embed(whole: PreTrainedModel, step: Step, encoded: VisualTokens | None) -> Tensor:
    # The id of a placeholder may lie outside the embedding table. Its embedding is overwritten anyway.
    device = step.ids_BL.device
    embeddings_BLE: Tensor = whole.get_input_embeddings()(step.ids_BL.masked_fill(placed(step.media_BL, device), 0))
    if encoded is None or not bool(step.media_BL.any()):
        return embeddings_BLE
    where = [placed(each, device) for each in step.media_BL.nonzero(as_tuple=True)]
    return embeddings_BLE.index_put(tuple(where), rows_of(encoded.tokens, step).to(embeddings_BLE.dtype))


def rows_of(tokens: Sequence[Tensor], step: Step) -> Tensor:
    """Returns visual_XE, the tokens of the rows' images row after row, each as often as its row shows it."""
    chosen: list[Tensor] = []
    for spans in step.spans:
        # An item stands in one span or in a span for each frame. Where a tree branches before an item, the row shows
        # the item once in each branch.
        shown: dict[int, int] = {}
        for item, length in spans:
            first = shown.get(item, 0) % len(tokens[item])
            chosen.append(tokens[item][first : first + length])
            shown[item] = shown.get(item, 0) + length
        counts = [sum(span.length for span in spans if span.media == item) for item in shown]
        if any(count % len(tokens[item]) for count, item in zip(counts, shown, strict=True)):
            raise ValueError(
                f"media spans of {' and '.join(map(str, counts))} tokens where the image has "
                f"{' and '.join(str(len(tokens[item])) for item in shown)}; a sequence was cut through its image, or "
                "laid out for an image of another size"
            )
    return torch.cat(chosen)
