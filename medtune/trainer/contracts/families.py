"""The contract of a family of models: it has a tiny random model, which answers exactly as transformers' own code."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import PIL.Image
import torch

from medtune.data import catalog
from medtune.data.types import MediaRef, Prompt, Question
from medtune.models.assemble import ZooEntry, any_entry
from medtune.models.contract import PARTS, part_parameters
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.proof import proof
from medtune.models.doctor.reference import AskedQuestion
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.models.weights.loading_options import DEFAULT
from medtune.trainer.contracts.contract import Contract
from medtune.trainer.contracts.models import TWIN

TEXT, OPTIONS = "Which plane?", ("abdomen", "the head")
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A family that is checked.

    Attributes:
        name: The name of the family.
        family: The family itself.
        twins: The random, tiny models that name the family, by name.
    """

    name: str
    family: Family
    twins: dict[str, ZooEntry]


@contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Gives the family of a name, with the random, tiny models that name it."""
    found = {twin: any_entry(twin) for twin in catalog.names(catalog.MODELS) if twin.startswith(TWIN)}
    twins = {twin: entry for twin, entry in found.items() if isinstance(entry, ZooEntry) and entry.family == name}
    yield Opened(name, find_family(name), twins)


def it_names_its_model_types_and_has_a_twin(found: Opened) -> Iterator[str]:
    """Complains about a family without model types, and about one without a random, tiny model."""
    if not found.family.model_types:
        yield "Family.model_types is empty; give the `model_type` of its config.json"
    if not found.twins:
        yield (
            f"no model named {TWIN}* has the family {found.name!r}; write one in `models` with `nano_entry(...)`, so "
            "that the family can be tried without its weights"
        )


def every_parameter_belongs_to_a_part(found: Opened) -> Iterator[str]:
    """Complains about a part without parameters; a parameter that belongs to no part raises an error of its own."""
    for name, entry in found.twins.items():
        skeleton = entry.skeleton()
        for part in PARTS:
            if not part_parameters(skeleton, part):
                yield f"{name} has no parameters in the part {part}; check the names in Family.wiring"


def its_answers_are_as_likely_as_transformers_says(found: Opened) -> Iterator[str]:
    """Complains if the doctor finds that a tiny model reads or replies otherwise than transformers' own code."""
    asking = Asking(torch.device("cpu"), nullcontext, TOLERANCE, max_new_tokens=4, moves=MOVED)
    for name, entry in found.twins.items():
        assembled = entry.assemble(0)
        if not isinstance(assembled.transform, ProcessorTransform):
            raise TypeError(
                "the twin of a family reads images with a processor of transformers; build it with nano_entry"
            )
        reference = reference_of(assembled, found.family, folder=None, loading=DEFAULT, precise=nullcontext)
        with TemporaryDirectory() as folder:
            asked = [_asked(number, Path(folder)) for number in range(2)]
            checks = proof(assembled, reference, asked, asking)
        for check in checks:
            # Replies of random weights may hold anything.
            if check.passed is False and check.name != "template leaks":
                mend = MEND.get(check.name, "check Family.wiring")
                yield f"{name}: {check.name}: {check.detail}; {mend}"


def _asked(number: int, folder: Path) -> AskedQuestion:
    path, size = folder / f"{number}.png", (60, 90, 3)
    PIL.Image.fromarray(np.random.default_rng(number).integers(0, 255, size, dtype=np.uint8)).save(path)
    question = Question(f"q{number}", f"m{number}", TEXT, OPTIONS, OPTIONS[0], "choice", "p")
    return AskedQuestion(question, (MediaRef(path),), Prompt(TEXT, OPTIONS, OPTIONS[0]))


CONTRACT = Contract(
    opened,
    (
        it_names_its_model_types_and_has_a_twin,
        every_parameter_belongs_to_a_part,
        its_answers_are_as_likely_as_transformers_says,
    ),
)
