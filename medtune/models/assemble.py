"""A zoo entry says how one model is assembled; this is what it may be told and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from medtune.data import catalog
from medtune.models.loading_plan import DEFAULT, Loading
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.vlm import Assembled, VisionLanguageModel

PACKAGE = "medtune.models.zoo"


class Assemble(Protocol):
    """Builds a model with its pretrained weights; `seed` draws what has none."""

    def __call__(self, seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        """Returns the model, ready to be asked."""
        ...


@dataclass(frozen=True, slots=True)
class HubWeights:
    """Where weights are that medtune does not bring along.

    Attributes:
        repo_id: On the Hugging Face hub.
        gated: Whether a licence has to be accepted there first.
    """

    repo_id: str
    gated: bool


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One model.

    Attributes:
        licence: Of the weights.
        assemble: Builds the model with its pretrained weights.
        skeleton: Builds the same modules without weights or network, on the meta device.
        hub: Where the weights are; None where nothing needs to be fetched by hand.
    """

    title: str
    licence: str
    assemble: Assemble
    skeleton: Callable[[], VisionLanguageModel | TransformersVlm]
    hub: HubWeights | None = None


def zoo_entry(name: str) -> ZooEntry:
    """Returns the zoo entry of that name.

    Raises:
        ValueError: There is none; the message offers the nearest name.
    """
    entry = cast("Callable[[], ZooEntry]", catalog.load(PACKAGE, name, "entry"))
    return entry()
