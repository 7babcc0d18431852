"""A zoo entry says how one model is assembled; this is what it may be told and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from medtune.data import catalog
from medtune.models.vlm import Assembled, VisionLanguageModel

PACKAGE = "medtune.models.zoo"


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One model.

    Attributes:
        licence: Of the weights.
        assemble: Builds the model with its pretrained weights; `seed` draws what has none.
        skeleton: Builds the same modules without weights or network, on the meta device.
    """

    title: str
    licence: str
    assemble: Callable[[int], Assembled]
    skeleton: Callable[[], VisionLanguageModel]


def zoo_entry(name: str) -> ZooEntry:
    """Returns the zoo entry of that name.

    Raises:
        ValueError: There is none; the message offers the nearest name.
    """
    entry = cast("Callable[[], ZooEntry]", catalog.load(PACKAGE, name, "entry"))
    return entry()
