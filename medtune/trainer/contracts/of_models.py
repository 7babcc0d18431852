"""The contract of a model: its skeleton needs no memory and can be tuned, and a tiny model has the same tensors."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from medtune.data import catalog
from medtune.models.assemble import CheckpointEntry, ServedEntry, ZooEntry, any_entry
from medtune.models.contract import PARTS, parameters_of_parts
from medtune.models.projectors import Projector, find_projector
from medtune.models.proof.answers import Asking
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.proof import proof
from medtune.models.proof.questions import made_up_choices
from medtune.models.towers import Tower, find_tower
from medtune.models.transformers_vlm.families import arguments_not_given, find_family
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Tuning
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.hub import show_downloads_alone
from medtune.models.weights.loading_options import DEFAULT
from medtune.trainer.contracts import Contract

TWIN = "nano_"
"""The prefix of the names of random, tiny models. They need no weights, so the check can assemble them."""

TOLERANCE = 2e-4
"""The largest allowed difference between log-probabilities of a token, in float32 on a CPU."""
MOVED = 1e-2
"""The smallest change of the log-probabilities that another image has to cause.

With a smaller change the comparison could not show whether the image is read at all.
"""
MEND = {
    **dict.fromkeys(("template", "image tokens", "end token", "positions"), "check Family.sequence"),
    "pixels": "check Family.pixels",
    "media are seen": "give the twin initializer_range=0.2, and check that the image is read",
}
"""What to look at where a check of the doctor fails."""
OVER = Tower(nn.Identity, width=24, grid=(4, 4, 4))
"""The tower that a projector is tried with."""
WIDTH = 40
BATCH = 2
SIZE = (16, 16, 8)
"""The size, in voxels, of the volume that a tower is tried on."""


@dataclass(frozen=True, slots=True)
class OpenedModel:
    name: str  # The name of the model.
    entry: ZooEntry | ServedEntry | CheckpointEntry  # Its entry in the zoo.


@contextmanager
def opened_model(name: str) -> Iterator[OpenedModel]:
    with _without_remarks():
        yield OpenedModel(name, any_entry(name))


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Hides what libraries say while a model is made, written and read: it asks nothing of the user."""
    show_downloads_alone()
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def it_says_what_it_is(found: OpenedModel) -> Iterator[str]:
    for field in ("title", "licence"):
        if not getattr(found.entry, field):
            yield f"{type(found.entry).__name__}.{field} is empty; fill it in"


def its_skeleton_needs_no_memory_and_takes_the_default_tuning(found: OpenedModel) -> Iterator[str]:
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


def its_twin_has_the_tensors_of_its_skeleton(found: OpenedModel) -> Iterator[str]:
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


MODELS = Contract(
    opened_model,
    (
        it_says_what_it_is,
        its_skeleton_needs_no_memory_and_takes_the_default_tuning,
        its_twin_has_the_tensors_of_its_skeleton,
    ),
)


@dataclass(frozen=True, slots=True)
class OpenedFamily:
    name: str  # The name of the family.
    family: Family  # The family itself.
    twins: dict[str, ZooEntry]  # The random, tiny models that name the family, by name.


@contextmanager
def opened_family(name: str) -> Iterator[OpenedFamily]:
    found = {twin: any_entry(twin) for twin in catalog.names(catalog.MODELS) if twin.startswith(TWIN)}
    twins = {twin: entry for twin, entry in found.items() if isinstance(entry, ZooEntry) and entry.family == name}
    with _without_remarks():
        yield OpenedFamily(name, find_family(name), twins)


def it_names_its_model_types_and_has_a_twin(found: OpenedFamily) -> Iterator[str]:
    if not found.family.model_types:
        yield "Family.model_types is empty; give the `model_type` of its config.json"
    if not found.twins:
        yield (
            f"no model named {TWIN}* has the family {found.name!r}; write one in `models` with `nano_entry(...)`, so "
            "that the family can be tried without its weights"
        )


def its_pixels_are_all_that_the_model_asks_for(found: OpenedFamily) -> Iterator[str]:
    for model, names in arguments_not_given(found.family):
        yield f"{model}.get_image_features needs {', '.join(names)}; name all that it needs in Family.pixels"


def every_parameter_belongs_to_a_part(found: OpenedFamily) -> Iterator[str]:
    for name, entry in found.twins.items():
        for part, own in parameters_of_parts(entry.skeleton()).items():
            if not own:
                yield f"{name} has no parameters in the part {part}; check the names in Family.wiring"


def its_answers_are_as_likely_as_transformers_says(found: OpenedFamily) -> Iterator[str]:
    asking = Asking(torch.device("cpu"), nullcontext, TOLERANCE, max_new_tokens=4, moves=MOVED)
    for name, entry in found.twins.items():
        assembled = entry.assemble(0)
        if not isinstance(assembled.transform, ProcessorTransform):
            raise TypeError(
                "the twin of a family reads images with a processor of transformers; build it with nano_entry"
            )
        reference = reference_of(assembled, found.family, folder=None, loading=DEFAULT, precise=nullcontext)
        with TemporaryDirectory() as folder:
            checks = proof(assembled, reference, made_up_choices(Path(folder)), asking)
        for check in checks:
            # Replies of random weights may hold anything.
            if check.passed is False and check.name != "template leaks":
                mend = MEND.get(check.name, "check Family.wiring")
                yield f"{name}: {check.name}: {check.detail}; {mend}"


FAMILIES = Contract(
    opened_family,
    (
        it_names_its_model_types_and_has_a_twin,
        its_pixels_are_all_that_the_model_asks_for,
        every_parameter_belongs_to_a_part,
        its_answers_are_as_likely_as_transformers_says,
    ),
)


@contextmanager
def opened_projector(name: str) -> Iterator[Projector]:
    yield find_projector(name, OVER)


def its_tokens_are_as_many_as_it_says(projector: Projector) -> Iterator[str]:
    torch.manual_seed(0)
    tokens = projector.build(WIDTH)(torch.rand(BATCH, *OVER.grid, OVER.width))
    wanted = (BATCH, projector.num_tokens, WIDTH)
    if tuple(tokens.shape) != wanted:
        yield (
            f"features of the shape {(BATCH, *OVER.grid, OVER.width)} give tokens of the shape {tuple(tokens.shape)}, "
            f"wanted (batch, num_tokens, embedding width) = {wanted}"
        )
    if not bool(torch.isfinite(tokens).all()):
        yield "some tokens are not finite numbers; check the initial weights"


def gradients_reach_it_and_the_tower(projector: Projector) -> Iterator[str]:
    torch.manual_seed(0)
    module = projector.build(WIDTH)
    features = torch.rand(BATCH, *OVER.grid, OVER.width, requires_grad=True)
    module(features).square().mean().backward()
    if features.grad is None or not bool(features.grad.any()):
        yield "no gradient reaches the tower's features; do not detach them"
    for name, parameter in module.named_parameters():
        if parameter.grad is None:
            yield f"the parameter {name} gets no gradient; use it in `forward`, or leave it out"


PROJECTORS = Contract(opened_projector, (its_tokens_are_as_many_as_it_says, gradients_reach_it_and_the_tower))


@contextmanager
def opened_tower(name: str) -> Iterator[Tower]:
    yield find_tower(name, SIZE)


def its_features_are_as_many_as_it_says(tower: Tower) -> Iterator[str]:
    torch.manual_seed(0)
    features = tower.build()(torch.rand(BATCH, 1, *SIZE))
    wanted = (BATCH, *tower.grid, tower.width)
    if tuple(features.shape) != wanted:
        yield f"the features have the shape {tuple(features.shape)}, wanted (batch, *grid, width) = {wanted}"
    if not bool(torch.isfinite(features).all()):
        yield "some features are not finite numbers; check the initial weights"


def every_parameter_learns(tower: Tower) -> Iterator[str]:
    torch.manual_seed(0)
    module = tower.build()
    module(torch.rand(BATCH, 1, *SIZE)).square().mean().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None:
            yield f"the parameter {name} gets no gradient; use it in `forward`, or leave it out"


TOWERS = Contract(opened_tower, (its_features_are_as_many_as_it_says, every_parameter_learns))
