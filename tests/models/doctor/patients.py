"""Twins as checkpoints in folders, and questions to ask them, for the tests of the doctor."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import PIL.Image
import torch

from medtune.data.types import MEDIA_MARK, MediaRef, Prompt, Question, Turn
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.learning import GRADIENT_TOLERANCE
from medtune.models.doctor.proof import Saving, proof, training_proof
from medtune.models.doctor.reference import TOLERANCE, AskedQuestion, Check, computing_type
from medtune.models.transformers_vlm.families import find_family
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import Lora, PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import NARROW, precise, set_types
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.models.transformers_vlm.asking import saved
from tests.models.twins import MODELS, OF_TRANSFORMERS, picture

WORDS = ("benign", "malignant tissue", "normal")


def asked_about(refs: list[MediaRef], *, per_media: int = 2) -> list[AskedQuestion]:
    """Returns a few questions about each media item; every third has letters as replies."""
    found = []
    for number, ref in enumerate(refs):
        for again in range(per_media):
            right = WORDS[(number + again) % 3]
            text = f"Which kind of tissue does scan {number} show{' here' * again}?"
            question = Question(f"q{number}-{again}", f"m{number}", text, WORDS, right, "choice", "p")
            found.append(AskedQuestion(question, (ref,), Prompt(text, WORDS, right)))
    return found


def conversations(refs: list[MediaRef]) -> list[AskedQuestion]:
    """Returns questions about two items in two orders, with earlier turns, with places in the text, and about none."""
    found = []
    for number, media in enumerate([tuple(refs[:2]), tuple(refs[1::-1]), (refs[0],), ()]):
        between = f"Is {MEDIA_MARK} older than {MEDIA_MARK}?" if number == 1 else "What do they show?"
        for turns in ((), (Turn(between, "Tissue."),)):
            text = between if number == 1 and not turns else f"Which kind of tissue is in place {number}?"
            name, right = f"q{number}-{len(turns)}", WORDS[number % 3]
            question = Question(name, f"m{number}", text, WORDS, right, "choice", "p", turns=turns)
            found.append(AskedQuestion(question, media, Prompt(text, WORDS, right)))
    return found


def pictures(folder: Path, count: int = 2) -> list[MediaRef]:
    """Writes pictures of different sizes."""
    refs = []
    for number in range(count):
        path = folder / f"picture_{number}.png"
        PIL.Image.fromarray(picture(number, width=90 - 20 * number, height=60 + 7 * number).pixels_HWC).save(path)
        refs.append(MediaRef(path))
    return refs


def checkpoint(name: str, folder: Path, *, dtype: torch.dtype = torch.float32) -> Path | None:
    """Writes a twin of transformers as a checkpoint with files of a type; None for the other twins."""
    if name not in OF_TRANSFORMERS:
        return None
    saved(name, folder)
    if dtype is not torch.float32:
        from safetensors.torch import load_file, save_file

        path = folder / "model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    return folder


def opened(name: str, folder: Path | None, loading: Loading = DEFAULT) -> Assembled:
    """Returns the model as medtune reads it from the folder."""
    where = replace(loading, weights=None if folder is None else str(folder))
    assembled = zoo_entry(name).assemble(0, where)
    assembled.model.eval()
    return assembled


def examined(
    name: str,
    assembled: Assembled,
    folder: Path | None,
    questions: list[AskedQuestion],
    *,
    precision: Precision = "32-true",
) -> dict[str, Check]:
    """Returns the checks of a model by name, on a CPU."""
    family, device = MODELS[name].family, torch.device("cpu")
    set_types(assembled.model.requires_grad_(False), precision)
    own = precise(precision, device)
    reference = reference_of(
        assembled, find_family(family) if family else None, folder=folder, loading=DEFAULT, precise=own
    )
    tolerance = TOLERANCE[computing_type(assembled.model, NARROW.get(precision))]
    asking = Asking(device, own, tolerance, max_new_tokens=6)
    return {check.name: check for check in proof(assembled, reference, questions, asking)}


def failed(checks: dict[str, Check]) -> set[str]:
    """Returns the names of the checks that failed."""
    return {name for name, check in checks.items() if check.passed is False}


TUNING = Tuning(
    vision=PartTuning(mode="lora", lr=1e-4, lora=Lora(r=2, alpha=8.0)),
    projector=PartTuning(mode="full", lr=1e-3),
    language=PartTuning(mode="lora", lr=2e-4, lora=Lora(r=4, alpha=4.0, dropout=0.1)),
)


def trained(
    name: str,
    assembled: Assembled,
    folder: Path | None,
    questions: list[AskedQuestion],
    scratch: Path,
    *,
    tuning: Tuning = TUNING,
    precision: Precision = "32-true",
    fault: Callable[[Assembled], None] = lambda _: None,
) -> dict[str, Check]:
    """Returns the checks of a training step by name, on a CPU; the fault is planted after the model is adapted."""
    family = MODELS[name].family
    device = torch.device("cpu")
    adapt(assembled.model, [tuning], seed=0)
    set_learning(assembled.model, tuning)
    set_types(assembled.model, precision)
    fault(assembled)
    computed = computing_type(assembled.model, NARROW.get(precision))
    own = precise(precision, device)
    reference = reference_of(
        assembled, find_family(family) if family else None, folder=folder, loading=DEFAULT, precise=own
    )
    checks = training_proof(
        assembled,
        reference,
        questions,
        Asking(device, own, TOLERANCE[computed]),
        Saving(name, tuning, 1, TOLERANCE[computed], scratch),
        precision=precision,
        gradient_tolerance=GRADIENT_TOLERANCE[computed],
        planned=lambda took: (None, f"{took.weights} bytes"),
    )
    return {check.name: check for check in checks}
