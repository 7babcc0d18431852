"""One row per family of transformers: its wiring, its sequence, and what its tower takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from medtune.data.types import Video
from medtune.models.sequence.layout import SequenceFamily
from medtune.models.transformers_vlm.wiring import Pixels, Wiring


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
