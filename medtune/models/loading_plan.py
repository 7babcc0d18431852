"""How weights are read: another checkpoint, another type, smaller images. Loads no torch: recipes are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DtypeName = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Loading:
    """Settings of a recipe's block `model`, of the same names.

    Attributes:
        weights: Hub id or local folder to take instead of the entry's own; an architecture has many checkpoints.
        dtype: Of the weights that are read; adapters are always float32.
        image_max_pixels: Images with more pixels are scaled down, where a model takes any size.
    """

    weights: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: int | None = None


DEFAULT = Loading()


def refuse_loading(loading: Loading, *, name: str) -> None:
    """Refuses settings that are for models of transformers.

    Raises:
        ValueError: One is set.
    """
    if loading != DEFAULT:
        raise ValueError(
            f"{name} has one set of weights, one type and one image size; leave out model.weights, model.dtype and "
            "model.image_max_pixels"
        )
