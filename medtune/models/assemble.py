"""Zoo entries: a module of medtune/models/zoo describes one model and how it is assembled; here it is found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from medtune.data import catalog
from medtune.models.contract import Assembled, Model
from medtune.models.nano.twin import Twin
from medtune.models.volumes.volume_parts import VolumeParts
from medtune.models.weights.loading_options import DEFAULT, Loading


class Assemble(Protocol):
    """Builds a model with its pretrained weights; `seed` draws what has none."""

    def __call__(self, seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        """Returns the model, ready to be asked."""
        ...


@dataclass(frozen=True, slots=True)
class HubWeights:
    """A repository on the hub that holds a model's weights.

    Attributes:
        repo_id: Name of the repository on the Hugging Face hub.
        gated: Whether a licence has to be accepted on the hub first.
    """

    repo_id: str
    gated: bool


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """A model that can be assembled in this process.

    Attributes:
        title: One line on the model, for `medtune list` and reports.
        licence: Licence of the weights.
        assemble: Builds the model with its pretrained weights.
        skeleton: Builds the same modules without weights or network, on the meta device.
        hub: Where the weights are; None where nothing needs to be fetched by hand, or they are in a local folder.
        files: Patterns of the files that hold the weights in a folder; one of them is enough.
        folder: What the local folder has to hold that `model.weights` must name; None where the entry needs none.
        variants: Named ways to prepare what the model sees; the first is the default. Empty where there is one alone.
        by_organ: Whether it looks at the organ alone that a question is about, unless it is told which.
        family: Name of its family, where it is a model of transformers.
        twin: What tests are told about a random, tiny model; None for a model to work with.
    """

    title: str
    licence: str
    assemble: Assemble
    skeleton: Callable[[], Model]
    hub: HubWeights | None = None
    files: tuple[str, ...] = ("model.safetensors.index.json", "model.safetensors")
    folder: str | None = None
    variants: Mapping[str, VolumeParts] = field(default_factory=dict)
    by_organ: bool = False
    family: str | None = None
    twin: Twin | None = None


@dataclass(frozen=True, slots=True)
class ServedEntry:
    """A model that is asked over the network. It can be evaluated, but not trained or saved.

    Attributes:
        title: One line on the model, for `medtune list` and reports.
        licence: The terms under which it may be asked.
    """

    title: str
    licence: str


def zoo_entry(name: str) -> ZooEntry:
    """Returns the zoo entry of that name.

    Raises:
        ValueError: There is none, and the message offers the nearest name; or the model is a served one.
    """
    found = any_entry(name)
    if isinstance(found, ServedEntry):
        raise ValueError(f"model.name {name!r}: its weights are not here. It can be evaluated, with `medtune eval`")
    return found


def any_entry(name: str) -> ZooEntry | ServedEntry:
    """Returns the zoo entry of that name, which may be the entry of a served model.

    Raises:
        ValueError: There is none; the message offers the nearest name.
    """
    entry = cast("Callable[[], ZooEntry | ServedEntry]", catalog.load(catalog.MODELS, name))
    return entry()
