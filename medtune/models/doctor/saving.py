"""Writes what was trained, reads it back, merges it and exports it; compares each with what was in memory before."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from medtune.models.contract import Assembled
from medtune.models.doctor.asked import AskedQuestion
from medtune.models.doctor.check import Check, Finding, checked
from medtune.models.doctor.learning import stir
from medtune.models.doctor.reference import Reference
from medtune.models.doctor.weights import weights_check
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import Tuning
from medtune.models.weights.checkpoint import load_trained, write_trained
from medtune.models.weights.export import merge_adapters, write_exported
from medtune.models.weights.proof.prove import apart

ROOM = 1.1
"""The free room that an export needs, as a multiple of the bytes of the model's weights."""


@dataclass(frozen=True, slots=True)
class Saving:
    """The trained model that is saved and merged.

    Attributes:
        name: Name of the zoo entry.
        tuning: How the parts learn.
        seed: Seed for the values that are overwritten when the checkpoint is read.
        tolerance: The largest difference between two log-probabilities of a token that is put down to rounding.
        scratch: A folder in which the checkpoint and the export are written for a while.
    """

    name: str
    tuning: Tuning
    seed: int
    tolerance: float
    scratch: Path


def told_before(reference: Reference, questions: Sequence[AskedQuestion]) -> list[list[float]]:
    """Returns plain transformers' log-probabilities of the right answers, with whatever adapters the model has."""
    with torch.no_grad():
        return [reference.logprobs(asked, asked.prompt.target).tolist() for asked in questions]


def saving_checks(
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    saving: Saving,
    trained: Mapping[str, Tensor],
    before: Sequence[Sequence[float]],
) -> tuple[Check, ...]:
    """Returns the checks of the saved, the merged and the exported model; the model is left merged, without adapters.

    Args:
        assembled: The model without adapters, with the weights that it had before training.
        reference: Plain transformers over the same modules.
        questions: The questions whose answers are compared.
        saving: What is saved, and where.
        trained: The weights that were trained, by name.
        before: What plain transformers said about the questions with the trained weights in memory.
    """
    saved = checked("save and load", lambda: _reloaded(assembled, reference, questions, saving, trained, before))
    if not saved.passed:
        return saved, Check("merge", None, "not tried, because saving and loading failed")
    merged = checked("merge", lambda: _merged(assembled, reference, questions, saving, before))
    return saved, merged, checked("export", lambda: _exported(assembled, saving))


def _reloaded(
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    saving: Saving,
    trained: Mapping[str, Tensor],
    before: Sequence[Sequence[float]],
) -> Finding:
    adapt(assembled.model, [saving.tuning], seed=saving.seed)
    set_learning(assembled.model, saving.tuning)
    # Other values than those that were trained, so that a tensor that is not read would be seen.
    stir(assembled.model, seed=saving.seed)
    assembled.model.eval()
    with tempfile.TemporaryDirectory(dir=saving.scratch) as folder:
        path = Path(folder) / "trained.safetensors"
        write_trained(path, trained, about={"model": saving.name})
        load_trained(assembled.model, path)
    learning = {name: p for name, p in assembled.model.named_parameters() if p.requires_grad}
    for name, value in trained.items():
        if not torch.equal(learning[name].detach().cpu().to(value), value):
            return False, f"{name} is read with other values than were written"
    off = apart(told_before(reference, questions), before).largest
    if not off <= saving.tolerance:
        return False, f"the model that was read answers otherwise than the one that was trained, by {off:.3g} a token"
    return True, f"{len(trained)} tensors were written and read; answers differ by {off:.2g} a token"


def _merged(
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    saving: Saving,
    before: Sequence[Sequence[float]],
) -> Finding:
    number = merge_adapters(assembled.model)
    assembled.model.requires_grad_(False)
    off = apart(told_before(reference, questions), before).largest
    if not off <= saving.tolerance:
        return False, (
            f"with {number} adapters merged, plain transformers answers otherwise than with them apart, by {off:.3g} "
            f"a token (allowed: {saving.tolerance:g})"
        )
    return True, f"{number} adapters merged; plain transformers' answers differ by {off:.2g} a token"


def _exported(assembled: Assembled, saving: Saving) -> Finding:
    needed = sum(tensor.numel() * tensor.element_size() for tensor in assembled.model.state_dict().values())
    free = shutil.disk_usage(saving.scratch).free
    if free < ROOM * needed:
        return None, f"{saving.scratch}: an export takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free"
    with tempfile.TemporaryDirectory(dir=saving.scratch) as temporary:
        folder = Path(temporary) / "export"
        folder.mkdir()
        write_exported(assembled, folder, name=saving.name, base_weights=None)
        held = {p.dtype for p in assembled.model.parameters() if p.is_floating_point()}
        widest = max(held, key=lambda dtype: torch.finfo(dtype).bits)
        found = weights_check(assembled.model, folder, read_as=widest)
    return found.passed, f"of the merged model: {found.detail}"
