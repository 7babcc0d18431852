"""The record of a family of transformers' vision-language models: its wiring, its sequences and its tower's inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn
from transformers import PreTrainedModel

from medtune.data.types import Video
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.transformers_vlm.wiring import Pixels, Wiring
from medtune.models.tuning.plan import PartName


class SequenceOf(Protocol):
    """A function that makes the sequence family of a model from its processor."""

    def __call__(self, processor: Any, *, config: Any, max_tokens: int) -> SequenceFamily:
        """Returns the sequence family.

        Args:
            processor: The checkpoint's processor.
            config: The checkpoint's configuration.
            max_tokens: Number of tokens that the language model can read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """The facts about a family that medtune states itself; the rest is read from the checkpoint.

    Attributes:
        model_types: Values of `model_type` in config.json by which a checkpoint of the family is recognised.
        wiring: The parts of the model and the functions that run them.
        sequence: Makes the sequence family.
        pixels: Names of the processor's outputs for an image that the tower takes.
        video: Turns a video into the tower's arguments; None where the family takes no videos.
        any_size: Whether images keep their shape and are only scaled down above a number of pixels
            (`model.image_max_pixels`); otherwise all images are scaled to one size or cut into tiles.
        image_frames: Number of equal frames as which the processor counts an image in its limits of pixels.
        limit_videos: Sets the largest number of pixels of a frame (`model.video_max_pixels`; None takes the vendor's)
            and of a whole video in a processor, given the number of tokens that the language model reads; None where
            all frames are scaled to one size.
        processor_writes_videos: Whether the processor of transformers writes a video as the model reads it, so that
            transformers can be asked about one.
        one_item: Whether the family is shown one media item at a time, because its processor cuts or writes an image
            otherwise where others are shown with it; questions about several are refused.
    """

    model_types: tuple[str, ...]
    wiring: Wiring
    sequence: SequenceOf
    pixels: tuple[str, ...]
    video: Callable[[Any, Video], Pixels] | None = None
    any_size: bool = False
    image_frames: int = 1
    limit_videos: Callable[[Any, int | None, int], None] | None = None
    processor_writes_videos: bool = True
    one_item: bool = False


def parts(vision: str, *projector: str) -> dict[PartName, tuple[str, ...]]:
    """Returns the modules of the three parts, with the names that most families give their language model.

    Args:
        vision: Name of the tower's module in the transformers model.
        projector: Names of the projector's modules and parameters.
    """
    return {"vision": (vision,), "projector": projector, "language": ("model.language_model", "lm_head")}


def language_model(whole: PreTrainedModel) -> nn.Module:
    """Returns the module of most families that turns embeddings into hidden states."""
    return whole.get_submodule("model.language_model")
