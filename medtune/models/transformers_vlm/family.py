"""One row per family of transformers: its wiring, its sequence, and what its tower takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from medtune.models.sequence.layout import SequenceFamily
from medtune.models.transformers_vlm.wiring import Wiring


class SequenceOf(Protocol):
    """Makes a sequence family of a processor."""

    def __call__(self, processor: Any, *, max_tokens: int) -> SequenceFamily:
        """Returns the family."""
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """What medtune knows about a family; the rest is read from the checkpoint.

    Attributes:
        model_types: `model_type` in config.json.
        pixels: What the tower takes of the processor's output.
        any_size: Whether images keep their shape, up to a number of pixels.
    """

    model_types: tuple[str, ...]
    wiring: Wiring
    sequence: SequenceOf
    pixels: tuple[str, ...]
    any_size: bool = False
