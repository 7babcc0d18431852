"""The contract of a family of models: it has a tiny random model, which answers exactly as transformers' own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import PIL.Image
import torch

from medtune.data import catalog
from medtune.data.media.images import Size
from medtune.data.types import Image
from medtune.models.assemble import ZooEntry, any_entry
from medtune.models.contract import PARTS, Assembled, part_parameters
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.family import Family
from medtune.models.transformers_vlm.media import ProcessorTransform
from medtune.trainer.contracts.contract import Contract
from medtune.trainer.contracts.models import TWIN

QUESTION, ANSWER = "Which plane?", "abdomen"
SIZE = Size(90, 60)
TOLERANCE = 2e-4
"""The largest allowed difference between log-probabilities, in float32 on a CPU."""
MOVED = 1e-2
"""The smallest change of the log-probabilities that another image has to cause.

With a smaller change the comparison could not show whether the image is read at all.
"""


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
    """Complains if the log-probabilities of a tiny model differ from those that transformers' own code computes."""
    for name, entry in found.twins.items():
        assembled = entry.assemble(0)
        assembled.model.eval()
        ids, told = _told(assembled, _picture(0))
        layout = assembled.family.layout(QUESTION, ANSWER, shapes=[SIZE])
        if tuple(ids[: len(layout.ids)]) != layout.ids:
            yield f"{name}: the sequence of tokens is not that of transformers' processor; check Family.sequence"
            continue
        wanted = [float(told[place - 1, label]) for place, label in enumerate(layout.labels) if label >= 0]
        ours, other = _ours(assembled, _picture(0)), _ours(assembled, _picture(1))
        if _apart(ours, wanted) > TOLERANCE:
            yield f"{name}: a log-probability is {_apart(ours, wanted):.2g} off transformers' own; check Family.wiring"
        if _apart(ours, other) < MOVED:
            yield (
                f"{name}: another image moves the log-probabilities by {_apart(ours, other):.2g} only, so that this "
                "check sees nothing; give the twin initializer_range=0.2, and check that the image is read"
            )


def _picture(seed: int) -> Image:
    return Image(np.random.default_rng(seed).integers(0, 255, (SIZE.height, SIZE.width, 3), dtype=np.uint8))


def _ours(assembled: Assembled, image: Image) -> list[float]:
    layout = assembled.family.layout(QUESTION, ANSWER, shapes=[SIZE])
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.family.pad_id)
    with torch.no_grad():
        encoded = assembled.model.encode(assembled.transform.stack([assembled.transform(image)]))
        found: list[float] = assembled.model(rows, encoded).logprobs_T.tolist()
    return found


def _told(assembled: Assembled, image: Image) -> tuple[list[int], torch.Tensor]:
    """Returns the tokens and the log-probabilities (token, vocabulary) of transformers' processor and model."""
    if not isinstance(assembled.transform, ProcessorTransform):
        raise TypeError("the twin of a family reads images with a processor of transformers; build it with nano_entry")
    processor = assembled.transform.processor
    turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}]
    asked = str(processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    # In LLaVA-1.5 a blank stands between the prompt and the answer.
    asked += " " if asked.endswith("ASSISTANT:") else ""
    whole = asked + ANSWER + assembled.family.pieces([assembled.family.stop_ids[0]])[0]
    inputs = processor(text=[whole], images=[PIL.Image.fromarray(image.pixels_HWC)], return_tensors="pt")
    with torch.no_grad():
        logits_LV = assembled.model.of_transformers(**inputs).logits[0]
    return inputs["input_ids"][0].tolist(), logits_LV.float().log_softmax(-1)


def _apart(left: list[float], right: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


CONTRACT = Contract(
    opened,
    (
        it_names_its_model_types_and_has_a_twin,
        every_parameter_belongs_to_a_part,
        its_answers_are_as_likely_as_transformers_says,
    ),
)
