"""The records that describe the models of the zoo, and functions that find a model's record by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from medtune.data import catalog
from medtune.models.contract import Assembled, Model
from medtune.models.weights.loading_options import DEFAULT, Loading

if TYPE_CHECKING:
    from medtune.models.volumes.volume_parts import VolumeInput, VolumeParts

VolumeInputOf = Callable[[int, Loading], "VolumeInput | None"]
"""A function that returns how a model reads volumes, given seed and settings; None where it reads no volumes as such.

It loads no weights, unless the input is made by the tower itself."""


class Assemble(Protocol):
    """A function that builds a model with its pretrained weights."""

    def __call__(self, seed: int, loading: Loading = DEFAULT, /) -> Assembled:
        """Returns the model, ready to answer questions."""
        ...


class Skeleton(Protocol):
    """A function that builds the modules of a model without weights or network, on the meta device."""

    def __call__(self, loading: Loading = DEFAULT, /) -> Model:
        """Returns the modules without weights.

        Args:
            loading: The recipe's settings; they decide the modules of a model that is put together from parts.
        """
        ...


def _no_volumes(_: int, __: Loading) -> None:
    return None


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
        assemble: Builds the model with its pretrained weights.
        skeleton: Builds the same modules without weights or network, on the meta device.
        hub: The repository with the weights; None where medtune downloads them itself or they are in a local folder.
        files: Patterns for the names of the files with the weights; a folder needs files of one pattern only.
        folder: Contents of the local folder that `model.weights` has to name, in words; None where none is needed.
        variants: The parts of the model by the name of the input's preparation, the default first; empty where there
            is only one preparation.
        by_organ: Whether the model sees only a crop around the organ that a question is about, unless the recipe names
            the organs.
        family: Name of its family, where it is a model of transformers; None for other models.
        twin: Whether it is a tiny, random model for tests.
        published: Reads the tensors of a folder that the authors publish, under the names of the model here; None,
            or a function that returns None, where transformers reads the folder.
        takes: Names of the fields of a recipe's block `model` (`Loading`) that the model takes; others are refused,
            also where the weights are not at hand.
        one_question: Whether the model is asked one question about one media item at a time, so that questions about
            several items and those with earlier turns are refused.
        volume_input: Returns the transform that `assemble` gives a model over volumes, without the model.
    """

    title: str
    licence: str
    assemble: Assemble
    skeleton: Skeleton
    hub: HubWeights | None = None
    files: tuple[str, ...] = ("model.safetensors.index.json", "model.safetensors")
    folder: str | None = None
    variants: Mapping[str, VolumeParts] = field(default_factory=dict)
    by_organ: bool = False
    family: str | None = None
    twin: bool = False
    published: Callable[[Path], Mapping[str, Tensor] | None] | None = None
    takes: tuple[str, ...] = ()
    one_question: bool = False
    volume_input: VolumeInputOf = _no_volumes


@dataclass(frozen=True, slots=True)
class ServedEntry:
    """A model on a server, which can be evaluated, but not trained or saved.

    Attributes:
        title: One line on the model, for `medtune list` and reports.
        licence: The terms under which it may be used.
    """

    title: str
    licence: str


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Any checkpoint of transformers: `model.weights` says which, and its files say what it is.

    Attributes:
        title: One line on the models, for `medtune list` and reports.
        licence: The terms under which they may be used.
        of: Returns the zoo entry of the checkpoint in a folder or of a hub id.
    """

    title: str
    licence: str
    of: Callable[[str], ZooEntry]


def zoo_entry(name: str, weights: str | None = None) -> ZooEntry:
    """Returns the zoo entry of that name.

    Args:
        weights: The recipe's model.weights, which decides the entry where the name stands for any checkpoint.
    """
    found = any_entry(name)
    if isinstance(found, CheckpointEntry):
        if weights is None:
            raise ValueError(
                f"model.name {name!r} needs model.weights: the hub id or the folder of a vision-language model of "
                "transformers. The id may also be the name itself (model.name: ORGANISATION/MODEL)"
            )
        return found.of(weights)
    if isinstance(found, ServedEntry):
        raise ValueError(f"model.name {name!r}: its weights are not here. It can be evaluated, with `medtune eval`")
    return found


def any_entry(name: str) -> ZooEntry | ServedEntry | CheckpointEntry:
    """Returns the entry of that name, which may be that of a model on a server or of any checkpoint."""
    entry: ZooEntry | ServedEntry | CheckpointEntry
    entry = catalog.made(catalog.MODELS, name, ZooEntry | ServedEntry | CheckpointEntry)
    return entry
