"""The settings of a recipe for the weights of a model and for the form of its media. This module loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from medtune.data.types import VolumesAs

DtypeName = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Loading:
    """The fields of a recipe's block `model` by which a zoo entry assembles the model; `ModelBlock` adds the others.

    Attributes:
        weights: Hub id or local folder of pretrained weights that replace the model's own; None takes the model's own.
        dtype: Number format that the pretrained weights are read in. bfloat16 takes half the host's memory while they
            are loaded, and goes with the precision bf16-mixed. On the device, weights that do not learn are stored as
            train.precision says, and adapters and all else that learns are float32.
        image_max_pixels: Number of pixels to which larger images are scaled down, where a model takes any size; None
            takes the limit of the model's own processor.
        video_frames: Largest number of frames of a video that are shown, where a model takes any number; None is 16.
        video_frames_per_s: Number of frames of each second that are shown; None spreads them over the whole clip.
        variant: Name of the input's preparation, where a model has several: that of the paper or of the public code,
            or codes (ct_chat), which shows the code ids of the model's own tower and needs the tower frozen. None
            takes the first.
        volumes_as: Form in which a model of images and videos is shown a CT: slices is MedGemma's (up to 85 axial
            slices in three windows), video is DeepTumorVQA's (up to 150 grey frames), and slice is one grey slice, the
            middle one; video_frames lowers the number. None leaves such a model without volumes.
        vision: Name of a tower, where a model is put together from parts (pocket_ct); None takes the model's own.
        projector: Name of a projector, where a model is put together from parts; None takes the model's own.
        language: Hub id or local folder of any causal language model of transformers, where a model is put together
            from parts; None takes the model's own.
        crop_organs: Organs around which the nn_ models crop their input; None is the organ that a question is about.
        crop_margin_mm: Margin around these organs, in mm; None takes the model's own.
    """

    weights: str | None = None
    dtype: DtypeName = "float32"
    image_max_pixels: int | None = None
    video_frames: int | None = None
    video_frames_per_s: float | None = None
    variant: str | None = None
    volumes_as: VolumesAs | None = None
    vision: str | None = None
    projector: str | None = None
    language: str | None = None
    crop_organs: tuple[str, ...] | None = None
    crop_margin_mm: float | None = None


CODES = "codes"
"""The variant that shows a model the code ids of its own tower. The tower has to be frozen, as it gets no gradient."""
DEFAULT = Loading()


def set_fields(loading: Loading) -> list[str]:
    """Returns the names of the recipe's fields that differ from their defaults, e.g. ["model.weights"]."""
    names = [field.name for field in fields(Loading)]
    return [f"model.{name}" for name in names if getattr(loading, name) != getattr(DEFAULT, name)]


def refuse_loading(loading: Loading, *, name: str) -> None:
    """Refuses all settings, for a model that takes none of them.

    Args:
        loading: The recipe's settings.
        name: Name of the model, for the message.

    Raises:
        ValueError: A setting differs from its default; the message names it.
    """
    if wrong := set_fields(loading):
        raise ValueError(
            f"{name} does not take {', '.join(wrong)}; leave it out (model.weights may name a folder that "
            "`medtune export` wrote)"
        )
