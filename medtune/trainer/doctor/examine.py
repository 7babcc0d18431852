"""Loads a recipe's checkpoint and makes all checks on it; the result goes into doctor.json."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from medtune.eval.results.doctor_file import DoctorCheck, DoctorFile
from medtune.models.contract import Assembled, Model
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.learning import GRADIENT_TOLERANCE, StepBytes
from medtune.models.doctor.proof import Saving, proof, training_proof
from medtune.models.doctor.reference import FAULTS, TOLERANCE, AskedQuestion, Check, Finding, Reference, computing_type
from medtune.models.doctor.weights import adapter_check, weights_check
from medtune.models.transformers_vlm.families import find_family
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.quantize import NARROW, precise, quantize_language
from medtune.models.weights.export import assemble_model
from medtune.trainer.doctor.fingerprint import weights_hash
from medtune.trainer.doctor.patient import Patient, asked_questions
from medtune.trainer.experiment.environment import environment
from medtune.trainer.experiment.load_model import about_weights, place
from medtune.trainer.plan.devices import GB
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import held
from medtune.trainer.recipe.schema import Recipe

ALLOWED = 0.05
"""The share by which the measured bytes of weights, gradients and moments may differ from the planned ones."""
SLACK_BYTES = 1_000_000
"""Bytes that are always allowed on top, for counters and buffers."""


def memory_finding(recipe: Recipe, model: Model, rows: Sequence[PartRow], took: StepBytes) -> Finding:
    """Returns whether the bytes of a step on one device are those that `medtune validate` plans.

    Args:
        recipe: The recipe.
        model: The model with its adapters.
        rows: The table of its parts.
        took: The bytes that a step took.
    """
    alone = replace(recipe, train=replace(recipe.train, strategy="auto", devices=1, optimizer="adamw"))
    planned = held(alone.train, rows, Divided(), is_gpu=took.peak is not None)
    pairs = {
        "weights": (planned.weights / GB, took.weights),
        "gradients and moments": ((planned.gradients + planned.moments + planned.average) / GB, took.learning),
    }
    for what, (wanted_gb, found) in pairs.items():
        if abs(found - wanted_gb * GB) > ALLOWED * wanted_gb * GB + SLACK_BYTES:
            return False, f"{what} take {found / GB:.3f} GB, and {wanted_gb:.3f} GB were planned"
    shown = ", ".join(f"{what} {found / GB:.3f} of {wanted:.3f} GB planned" for what, (wanted, found) in pairs.items())
    if took.peak is None:
        return True, f"{shown}; activations cannot be measured on a CPU"
    return True, f"{shown}; the whole step of {took.tokens} tokens took {took.peak / GB:.2f} GB"


TRAINED_ON = 4
"""The number of questions of the training step."""


def examine(patient: Patient) -> DoctorFile:
    """Returns the record of all checks of a recipe's checkpoint.

    One copy of the model is in memory, and beside it one tensor of its files at a time, or a copy of what learns with
    its gradients and moments.
    """
    began = time.monotonic()
    questions = asked_questions(patient)
    checks = tuple(_checks(patient, questions))
    seen = environment([])
    packages = seen["packages"]
    assert isinstance(packages, dict)
    commit = seen["git_commit"]
    cuda = patient.device.type == "cuda"
    return DoctorFile(
        model=patient.recipe.model.name,
        weights=patient.weights or f"{patient.recipe.model.name}'s own",
        weights_hash="" if patient.folder is None else weights_hash(patient.folder),
        questions=len(questions),
        device=torch.cuda.get_device_name(patient.device) if cuda else "a CPU",
        precision=patient.recipe.train.precision,
        dtype=patient.recipe.model.dtype,
        medtune=str(seen["medtune"]),
        git_commit=None if commit is None else str(commit),
        packages={name: packages[name] for name in ("torch", "transformers", "peft")},
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began, 1),
        checks=tuple(DoctorCheck(check.name, check.passed, check.detail) for check in checks),
    )


def _checks(patient: Patient, questions: Sequence[AskedQuestion]) -> list[Check]:
    recipe, device = patient.recipe, patient.device
    block, read_as = recipe.model, getattr(torch, recipe.model.dtype)
    assembled = assemble_model(block.name, recipe.train.seed, block)
    model = assembled.model
    model.requires_grad_(False)
    # The files are compared before anything is narrowed, so that every bit counts.
    folder = patient.folder
    checks = [weights_check(model, folder, read_as=read_as, published=patient.entry.published)]
    if block.language_bits is not None:
        quantize_language(model, precision=recipe.train.precision, device=device)
    place(model, recipe.train.precision, device)
    model.eval()
    checks.append(adapter_check(model, block.checkpoint, about_weights(recipe)))
    computed = computing_type(model, NARROW.get(recipe.train.precision))
    precision = precise(recipe.train.precision, device)
    asking = Asking(
        device,
        precision,
        TOLERANCE[computed],
        batch_tokens=recipe.eval.batch_tokens,
        batch_size=recipe.eval.batch_size,
        max_new_tokens=recipe.eval.max_new_tokens,
    )
    family = patient.entry.family
    try:
        reference = reference_of(
            assembled, find_family(family) if family else None, folder=folder, loading=block, precise=precision
        )
    except FAULTS as error:
        return [*checks, Check("reference", False, f"plain transformers cannot read the checkpoint: {error}")]
    checks += proof(assembled, reference, questions, asking)
    checks.append(_example_answers(patient))
    with tempfile.TemporaryDirectory(prefix="medtune-doctor-") as scratch:
        saving = Saving(block.name, recipe.stages[-1].tuning, recipe.train.seed + 1, asking.tolerance, Path(scratch))
        checks += _training_checks(patient, assembled, reference, questions, asking, saving, computed)
    return checks


def _training_checks(
    patient: Patient,
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    asking: Asking,
    saving: Saving,
    computed: torch.dtype,
) -> tuple[Check, ...]:
    recipe, model = patient.recipe, assembled.model
    try:
        adapt(model, [saving.tuning], seed=recipe.train.seed)
        rows = set_learning(model, saving.tuning)
        return training_proof(
            assembled,
            reference,
            questions[:TRAINED_ON],
            asking,
            saving,
            precision=recipe.train.precision,
            gradient_tolerance=GRADIENT_TOLERANCE[computed],
            planned=lambda took: memory_finding(recipe, model, rows, took),
        )
    except FAULTS as error:
        return (Check("training", False, f"a training step cannot be made: {error}"),)


def _example_answers(patient: Patient) -> Check:
    kind = "release" if patient.entry.variants else "checkpoint"
    return Check("published answers", None, f"not available: the {kind} states no answers of the published model")
