"""Trains a step of a recipe with medtune and with plain peft, and compares everything, its memory with the plan too."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.models.contract import Model
from medtune.models.proof.checks import Check, Finding
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.trainer.doctor import asked_questions, open_candidate, read_candidate
from medtune.trainer.plan.devices import GB
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import held
from medtune.trainer.recipe.schema import Recipe
from tests.models.proof.learning import GRADIENT_TOLERANCE, StepBytes
from tests.models.proof.training import Saving, training_proof

ALLOWED = 0.05
"""The share by which the measured bytes of weights, gradients and moments may differ from the planned ones."""
SLACK_BYTES = 1_000_000
"""Bytes that are always allowed on top, for counters and buffers."""
TRAINED_ON = 4
"""The number of questions of the training step."""


def training_checks(recipe: Recipe, scratch: Path) -> dict[str, Check]:
    """Returns the checks of a training step with the tuning of a recipe's last stage, by name.

    Args:
        scratch: A folder in which the checkpoint and the export are written for a while.
    """
    candidate = open_candidate(recipe)
    recipe, questions = candidate.recipe, asked_questions(candidate)
    read = read_candidate(candidate)
    reference, model = read.reference(candidate), read.assembled.model
    saving = Saving(recipe.model.name, recipe.stages[-1].tuning, recipe.train.seed + 1, read.asking.tolerance, scratch)
    adapt(model, [saving.tuning], seed=recipe.train.seed)
    rows = set_learning(model, saving.tuning)
    checks = training_proof(
        read.assembled,
        reference,
        questions[:TRAINED_ON],
        read.asking,
        saving,
        precision=recipe.train.precision,
        gradient_tolerance=GRADIENT_TOLERANCE[read.computed],
        planned=lambda took: _memory(recipe, model, rows, took),
    )
    return {check.name: check for check in checks}


def _memory(recipe: Recipe, model: Model, rows: Sequence[PartRow], took: StepBytes) -> Finding:
    """Returns whether the bytes that a step took on one device are those that `medtune validate` plans."""
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
