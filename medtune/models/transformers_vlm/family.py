"""A family of transformers' vision-language models: its wiring, its sequences, and what its tower takes."""

from __future__ import annotations

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
    """Makes a sequence family of a processor."""

    def __call__(self, processor: Any, *, config: Any, max_tokens: int) -> SequenceFamily:
        """Returns the family."""
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """What medtune knows about a family; the rest is read from the checkpoint.

    Attributes:
        model_types: `model_type` in config.json.
        pixels: What the tower takes of the processor's output.
        video: Makes the tower's arguments of a video; None where the family takes none.
        any_size: Whether images keep their shape, up to a number of pixels.
    """

    model_types: tuple[str, ...]
    wiring: Wiring
    sequence: SequenceOf
    pixels: tuple[str, ...]
    video: Callable[[Any, Video], Pixels] | None = None
    any_size: bool = False


def parts(vision: str, *projector: str) -> dict[PartName, tuple[str, ...]]:
    """Returns the roots of the three parts where the language model has the names that most families give it.

    Args:
        vision: Name of the tower's module in the transformers model.
        projector: Names of the projector's modules and parameters.
    """
    return {"vision": (vision,), "projector": projector, "language": ("model.language_model", "lm_head")}


def language_model(whole: PreTrainedModel) -> nn.Module:
    """Returns the decoder of most families: the module that takes embeddings and gives hidden states."""
    return whole.get_submodule("model.language_model")
