"""Compares the memory that was planned for a training step with the memory that it took."""

from collections.abc import Sequence
from dataclasses import replace

from medtune.models.contract import Model
from medtune.models.doctor.check import Finding
from medtune.models.doctor.learning import StepBytes
from medtune.models.tuning.apply import PartRow
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
