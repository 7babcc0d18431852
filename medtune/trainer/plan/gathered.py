"""Counts what a device gathers at once of a divided model, and makes the inputs of a pass whose size alone matters.

Shape legend: B rows, L tokens, T target tokens, C channels, T tiles, H height, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from medtune.data.types import Volume
from medtune.models.assemble import ZooEntry
from medtune.models.contract import MediaBatch, Model
from medtune.models.sequence.packing import PackedRows, plain_columns
from medtune.models.sharding.lock_step import units_of as divided_units
from medtune.models.tuning.quantize import logical_size, stored_bytes
from medtune.models.volumes.volume_parts import chosen
from medtune.models.weights.loading_options import Loading
from medtune.trainer.recipe.schema import StrategyName, TrainBlock

GRADIENT_BYTES = 4
"""Bytes of a gradient, float32."""
LIVE_ELEMENTS = 1_000_000_000
"""The weights that ZeRO-3 keeps gathered because they are needed again soon.

Source: the default of deepspeed 0.19.8 for `stage3_max_live_parameters` and `stage3_max_reuse_distance`.
"""
PREFETCHED_ELEMENTS = 50_000_000
"""The weights that ZeRO-3 gathers ahead of their use, in a buffer from which they are copied.

Source: the default of deepspeed 0.19.8 for `stage3_prefetch_bucket_size`.
"""


REST = "the rest"
"""The name of the unit of what belongs to no other module."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A module whose weights are gathered together."""

    name: str
    stored: float
    elements: int
    learning: int


@dataclass(frozen=True, slots=True)
class Divided:
    """What is gathered at once of a model whose weights are divided."""

    units: Sequence[Unit] = ()  # The modules whose weights FSDP2 gathers together, in the order of a pass.
    layers: Sequence[Unit] = ()  # The modules that hold weights themselves, whose weights ZeRO-3 gathers together.


def units_of(model: Model) -> list[Unit]:
    """Returns the modules that FSDP2 gathers one at a time, in the order of a pass, and last what belongs to none."""
    taken: set[int] = set()
    found: list[Unit] = []
    names = {id(module): name for name, module in model.named_modules()}
    for module in (*divided_units(model), model):
        own = [p for p in module.parameters() if id(p) not in taken]
        taken.update(id(p) for p in own)
        if own:
            found.append(_unit(names[id(module)] or REST, own))
    language = model.of_transformers
    first, last = (names.get(id(end)) for end in (language.get_input_embeddings(), language.get_output_embeddings()))
    decoder = names[id(language.get_decoder())]
    after = {last: 3, REST: 4}
    return sorted(
        found,
        key=lambda unit: after.get(unit.name, 1 if unit.name == first else 2 if unit.name.startswith(decoder) else 0),
    )


def layers_of(model: Model) -> list[Unit]:
    """Returns the modules that hold weights themselves, as ZeRO-3 gathers them."""
    owned = ((name, list(module.parameters(recurse=False))) for name, module in model.named_modules())
    return [_unit(name or REST, own) for name, own in owned if own]


def _unit(name: str, own: Sequence[nn.Parameter]) -> Unit:
    return Unit(
        name,
        sum(map(stored_bytes, own)),
        sum(map(logical_size, own)),
        sum(logical_size(p) for p in own if p.requires_grad),
    )


def gathered(train: TrainBlock, divided: Divided, *, is_gpu: bool) -> float:
    """Returns the most bytes of whole weights, and of their gradients, that a device holds at once in a training.

    It is 0 where weights are not divided.
    """
    if not train.divides_weights or train.world_size == 1 or not divided.units:
        return 0.0
    if train.strategy == "fsdp":
        return max(_forward(divided.units), _backward(divided.units))
    running = max(layer.stored for layer in divided.layers)
    gradient = GRADIENT_BYTES * max(layer.learning for layer in divided.layers)
    if not is_gpu:
        return running + gradient
    whole, elements = sum(unit.stored for unit in divided.units), sum(unit.elements for unit in divided.units)
    ahead = whole * min(1.0, PREFETCHED_ELEMENTS / elements)
    return max(running, whole * min(1.0, LIVE_ELEMENTS / elements)) + ahead + gradient


def gathered_to_answer(divided: Divided, strategy: StrategyName) -> float:
    """Returns the most bytes of whole weights that a device holds at once when questions are answered."""
    if strategy == "fsdp":
        return _forward(divided.units)
    return max((layer.stored for layer in divided.layers), default=0.0)


def _forward(units: Sequence[Unit]) -> float:
    """Returns the bytes of a unit that runs and of two buffers, from which it and the unit before it were copied.

    What belongs to no unit is held as long as the whole model runs.

    Source: `AllGatherState` in torch.distributed.fsdp (torch 2.15), which keeps a buffer until the next copy is made.
    """
    rest, inner = _rest(units), [unit.stored for unit in units if unit.name != REST]
    return rest + max([rest, *(before + 2 * unit for before, unit in pairwise([0.0, *inner]))])


def _backward(units: Sequence[Unit]) -> float:
    """Returns the bytes of a unit that runs, of the buffer of the next one, and of the gradients of two.

    Those of a unit are made while those of the unit before it are sent.

    Source: `ReduceScatterState` in torch.distributed.fsdp (torch 2.15).
    """
    rest, inner = _rest(units), [unit.stored for unit in units if unit.name != REST]
    learning = max((unit.learning for unit in units), default=0)
    return rest + max([rest, *(a + b for a, b in pairwise([0.0, *inner]))]) + 2 * GRADIENT_BYTES * learning


def _rest(units: Sequence[Unit]) -> float:
    return sum(unit.stored for unit in units if unit.name == REST)


@dataclass(frozen=True, slots=True)
class PassSize:
    rows: int
    tokens: int  # Number of tokens of each row, visual tokens included.
    targets: int  # Number of target tokens of each row.
    media: int = 1


def rows_of(size: PassSize, *, visual_tokens: int, axes: tuple[int, ...] = ()) -> PackedRows:
    """Returns rows of that size, each of which sees all that stands before a token and shows media of its own.

    Args:
        visual_tokens: Number of tokens with which a media item stands in a row; 0 for rows of text alone.
        axes: Further axes of the position ids, (3,) for M-RoPE.
    """
    shown = min(size.rows, size.media) if 0 < visual_tokens < size.tokens else 0
    media_BL = torch.zeros((size.rows, size.tokens), dtype=torch.bool)
    media_BL[:shown, :visual_tokens] = True
    places = torch.arange(size.tokens - size.targets, size.tokens).clamp(min=0)
    number = size.rows * size.targets
    positions = torch.arange(size.tokens).reshape(1, -1, *[1] * len(axes))
    return PackedRows(
        ids_BL=torch.zeros((size.rows, size.tokens), dtype=torch.int64),
        positions_BL=positions.expand(size.rows, size.tokens, *axes).clone(),
        columns_BCL=plain_columns(size.rows, size.tokens),
        is_plain=True,
        media_BL=media_BL,
        media_S=torch.arange(shown),
        length_S=torch.full((shown,), visual_tokens),
        target_row_T=torch.arange(size.rows).repeat_interleave(size.targets),
        target_place_T=places.repeat(size.rows),
        target_id_T=torch.zeros(number, dtype=torch.int64),
        target_sequence_T=torch.arange(size.rows).repeat_interleave(size.targets),
    )


def media_without_files(entry: ZooEntry, model: Model, loading: Loading, *, number: int) -> MediaBatch | None:
    """Returns empty media in the shape that the model reads; None where only files on the hub say what it is.

    Args:
        model: The model, which may be on the meta device.
    """
    if entry.variants and not entry.by_organ:
        prepare = chosen(entry.variants, loading.variant).transform
        empty = prepare(Volume(np.zeros((8, 8, 8), np.int16), (1.0, 1.0, 1.0), "RAS"))
        return torch.from_numpy(np.ascontiguousarray(empty)).expand(number, *empty.shape)
    if entry.family == "mllama":
        vision = model.of_transformers.config.vision_config
        tiles, side = vision.max_num_tiles, vision.image_size
        return [
            {
                "pixel_values": torch.zeros(1, 1, tiles, 3, side, side),
                "aspect_ratio_ids": torch.full((1, 1), len(vision.supported_aspect_ratios)),
                "aspect_ratio_mask": torch.ones(1, 1, tiles, dtype=torch.int64),
            }
            for _ in range(number)
        ]
    return None
