"""Checks that trained weights belong to the model that they are laid over, and to the recipe's scale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medtune.models.contract import Model
from medtune.models.doctor.check import Check, Finding, checked
from medtune.models.weights.base_samples import BASE, other_base
from medtune.models.weights.checkpoint import read_about


def adapter_check(model: Model, checkpoint: Path | None, wanted: Mapping[str, str]) -> Check:
    """Returns the check of trained weights that a recipe starts from.

    Args:
        model: The model with its pretrained weights, before the trained ones are read.
        checkpoint: The file of trained weights; None where the recipe names none.
        wanted: The facts that the recipe states: the model's name and the adapters' scales.
    """
    return checked("adapter", lambda: _belongs(model, checkpoint, wanted))


def _belongs(model: Model, checkpoint: Path | None, wanted: Mapping[str, str]) -> Finding:
    if checkpoint is None:
        return None, "the recipe starts from no trained weights (model.checkpoint)"
    found = read_about(checkpoint)
    for field, what in (("model", "the model"), ("lora_alpha", "model.tuning.*.lora.alpha")):
        if found.get(field) != wanted[field]:
            return (
                False,
                f"{checkpoint.name} was trained with {what} {found.get(field)}, the recipe has {wanted[field]}",
            )
    if not found.get(BASE):
        return None, f"{checkpoint.name} does not say which weights it was trained over; it is of an earlier version"
    if other := other_base(model, found[BASE]):
        return False, f"{checkpoint.name} was trained over other weights: {other}"
    return True, f"{checkpoint.name} was trained over these weights, with the recipe's scales"
