"""Makes the inputs of a pass whose size alone matters: rows of a length, with the media that the model can be shown.

Shape legend: B rows, L tokens, T target tokens, C channels, T tiles, H height, W width.
"""

from dataclasses import dataclass

import numpy as np
import torch

from medtune.data.types import Volume
from medtune.models.assemble import ZooEntry
from medtune.models.contract import MediaBatch, Model
from medtune.models.sequence.packing import PackedRows, plain_columns
from medtune.models.volumes.volume_parts import chosen
from medtune.models.weights.loading_options import Loading


@dataclass(frozen=True, slots=True)
class PassSize:
    """The size of a pass.

    Attributes:
        rows: Number of rows.
        tokens: Number of tokens of each row, visual tokens included.
        targets: Number of target tokens of each row.
        media: Number of media items.
    """

    rows: int
    tokens: int
    targets: int
    media: int = 1


def rows_of(size: PassSize, *, visual_tokens: int, axes: tuple[int, ...] = ()) -> PackedRows:
    """Returns rows of that size, each of which sees all that stands before a token and shows media of its own.

    Args:
        size: The size of the pass.
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
        entry: The model's entry.
        model: The model, which may be on the meta device.
        loading: The recipe's settings.
        number: Number of media items.
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
