"""The contract of a model: its skeleton needs no memory and can be tuned, and a tiny model has the same tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from medtune.models.assemble import CheckpointEntry, ServedEntry, ZooEntry, any_entry
from medtune.models.contract import PARTS
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Tuning
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.loading_options import DEFAULT
from medtune.trainer.contracts.contract import Contract

TWIN = "nano_"
"""The prefix of the names of random, tiny models. They need no weights, so the check can assemble them."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that is checked.

    Attributes:
        name: The name of the model.
        entry: Its entry in the zoo.
    """

    name: str
    entry: ZooEntry | ServedEntry | CheckpointEntry


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Gives the model of a name; nothing is assembled yet."""
    yield Opened(name, any_entry(name))


def it_says_what_it_is(found: Opened) -> Iterator[str]:
    """Complains about an empty title or licence."""
    for field in ("title", "licence"):
        if not getattr(found.entry, field):
            yield f"{type(found.entry).__name__}.{field} is empty; fill it in"


def its_skeleton_needs_no_memory_and_takes_the_default_tuning(found: Opened) -> Iterator[str]:
    """Complains about a skeleton with parameters in memory or with missing parts, and if LoRA finds no layer."""
    if not isinstance(found.entry, ZooEntry):
        return
    skeleton = found.entry.skeleton()
    if any(parameter.device.type != "meta" for parameter in skeleton.parameters()):
        yield 'the skeleton has parameters in memory; build it under `torch.device("meta")`'
    rows = {row.part: row for row in apply_tuning(skeleton, Tuning(), seed=0)}
    if set(rows) != set(PARTS):
        yield f"the skeleton has the parts {sorted(rows)}; it has to have {', '.join(PARTS)}"
    elif rows["language"].adapted_modules == 0:
        yield "LoRA finds no linear layer in the language model; check the part's roots"


def its_twin_has_the_tensors_of_its_skeleton(found: Opened) -> Iterator[str]:
    """Complains if a random, tiny model is assembled with other tensors than its skeleton has."""
    if found.name.startswith(TWIN) and isinstance(found.entry, ZooEntry):
        yield from other_tensors(found.entry)


def other_tensors(entry: ZooEntry) -> Iterator[str]:
    """Complains if the assembled model has other tensors than its skeleton, or another transform than its entry says.

    The origin of each part has to be named as well.
    """
    assembled, skeleton = entry.assemble(0), entry.skeleton()
    is_over_volumes = isinstance(assembled.transform, VolumeInput)
    if is_over_volumes and entry.volume_input(0, DEFAULT) != assembled.transform:
        yield "ZooEntry.volume_input does not return the transform of the assembled model; the cache is filled with it"
    built, planned = ({k: tuple(v.shape) for k, v in m.state_dict().items()} for m in (assembled.model, skeleton))
    for name in sorted(built.keys() | planned.keys()):
        if built.get(name) != planned.get(name):
            yield f"the tensor {name} has the shape {built.get(name)}, in the skeleton {planned.get(name)}"
    if not set(assembled.provenance) >= set(PARTS):
        yield f"Assembled.provenance is about {sorted(assembled.provenance)}; say of each part where it is from"


CONTRACT = Contract(
    opened,
    (
        it_says_what_it_is,
        its_skeleton_needs_no_memory_and_takes_the_default_tuning,
        its_twin_has_the_tensors_of_its_skeleton,
    ),
)
