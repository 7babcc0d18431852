"""How weights are read and what they are shown. Loads no torch: recipes are made of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from medtune.data.types import VolumesAs

DtypeName = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Loading:
    """Settings of a recipe's block `model`, of the same names.

    Attributes:
        weights: Hub id or local folder to take instead of the entry's own; an architecture has many checkpoints.
        dtype: Of the weights that are read; adapters are always float32.
        image_max_pixels: Images with more pixels are scaled down, where a model takes any size.
        video_frames: At most so many frames of a video are looked at, where a model takes any number.
        video_frames_per_s: How many of a second of it; None spreads them over the whole clip.
        volumes_as: How a model of images and videos is shown volumes; None leaves it without them.
        variant: One of the entry's named ways to prepare what it sees, where it has several.
        vision: Name of a tower, where a model is put together from parts.
        projector: Name of a projector, likewise.
        language: Hub id or local folder of a language model, likewise.
        crop_organs: Organs around which a model that crops does so; None is the organ that a question is about.
        crop_margin_mm: What stays around them; None leaves the model its own.
    """

    weights: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: int | None = None
    variant: str | None = None
    video_frames: int | None = None
    video_frames_per_s: float | None = None
    volumes_as: VolumesAs | None = None
    vision: str | None = None
    projector: str | None = None
    language: str | None = None
    crop_organs: tuple[str, ...] | None = None
    crop_margin_mm: float | None = None


CODES = "codes"
"""The variant that shows a model the code ids of its own tower, which is frozen: no gradient comes through them."""
DEFAULT = Loading()


def set_fields(loading: Loading) -> list[str]:
    """Returns the recipe's fields that are not left at their defaults, e.g. ["model.weights"]."""
    names = [field.name for field in fields(Loading)]
    return [f"model.{name}" for name in names if getattr(loading, name) != getattr(DEFAULT, name)]


def refuse_loading(loading: Loading, *, name: str) -> None:
    """Refuses settings that are for models of transformers, or for models put together from parts.

    Raises:
        ValueError: One is set; the message names it.
    """
    if wrong := set_fields(loading):
        raise ValueError(
            f"{name} does not take {', '.join(wrong)}; leave it out (model.weights may name a folder that "
            "`medtune export` wrote)"
        )
