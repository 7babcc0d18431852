"""Trains a step with medtune and with plain peft, saves and merges it, and compares everything."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from medtune.models.contract import Assembled, Model
from medtune.models.proof.answers import Asking
from medtune.models.proof.checks import FAULTS, Check, Finding, apart, checked
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.reference import Reference
from medtune.models.proof.weights import weights_check
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import adapted_modules, adapted_weight, frozen_type, is_quantized
from medtune.models.weights.checkpoint import load_trained, write_trained
from medtune.models.weights.export import write_exported
from medtune.models.weights.write_adapter import merged_layer
from tests.models.proof.learning import StepBytes, learn, learning_checks, stir
from tests.models.proof.plain_peft import without_adapters

ROOM = 1.1
"""The free room that an export needs, as a multiple of the bytes of the model's weights."""

MERGED = 0.01
"""The largest share by which a merged layer may differ from the layer in 4 bits, both given inputs in float32.

The codes stand for numbers of the type that the model computes in, which bfloat16 rounds by up to 0.4 %.
"""


@dataclass(frozen=True, slots=True)
class Saving:
    """The trained model that is saved and merged."""

    name: str
    tuning: Tuning
    seed: int  # Seed for the values that are overwritten when the checkpoint is read.
    tolerance: float  # The largest difference between two log-probabilities of a token that is put down to rounding.
    scratch: Path  # A folder in which the checkpoint and the export are written for a while.


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
    layers = dict(adapted_modules(assembled.model))
    packed = {name: layer for name, layer in layers.items() if is_quantized(adapted_weight(layer))}
    for name, layer in reversed(packed.items()):
        apart_by = _merged_apart(layer)
        if not apart_by <= MERGED:
            return (
                False,
                f"{name}: merged with its adapter it computes otherwise, by {apart_by:.3g} of what it computes",
            )
    for name, layer in layers.items():
        if name not in packed:
            assembled.model.set_submodule(name, merged_layer(layer))
    number = len(layers)
    assembled.model.requires_grad_(False)
    off = apart(told_before(reference, questions), before).largest
    if not off <= saving.tolerance:
        return False, (
            f"with {number} adapters merged, plain transformers answers otherwise than with them apart, by {off:.3g} "
            f"a token (allowed: {saving.tolerance:g})"
        )
    alone = f", {len(packed)} of them into what 4 bits stand for, each layer by itself" if packed else ""
    return True, f"{number} adapters merged{alone}; plain transformers' answers differ by {off:.2g} a token"


@torch.no_grad()
def _merged_apart(layer: Any) -> float:
    """Returns how far a layer in 4 bits and the plain one that it is merged into are apart, both in float32."""
    base = layer.get_base_layer()
    kept, base.compute_dtype = base.compute_dtype, torch.float32
    inputs = torch.randn(len(layer.lora_A["default"].weight) + 2, base.in_features).to(base.weight.device)
    wanted = layer(inputs)
    base.compute_dtype = kept
    return float((merged_layer(layer)(inputs) - wanted).norm() / wanted.norm())


def _exported(assembled: Assembled, saving: Saving) -> Finding:
    if any(is_quantized(parameter) for parameter in assembled.model.parameters()):
        return (
            None,
            "not tried with weights in 4 bits: `medtune export` merges into the weights as their files have them",
        )
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


def training_proof(
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    asking: Asking,
    saving: Saving,
    *,
    precision: Precision,
    gradient_tolerance: float,
    planned: Callable[[StepBytes], Finding],
) -> tuple[Check, ...]:
    """Returns the checks of learning, saving and merging; the model is left merged with one step of training.

    Besides the model, a copy of the parameters that learn is in memory, and the gradients and AdamW's moments of one
    side at a time.

    Args:
        gradient_tolerance: The largest relative difference of a gradient that is put down to rounding.
    """
    model = assembled.model
    tuning = _without_dropout(saving.tuning)
    formats = format_check(model, precision=precision)
    stir(model, seed=saving.seed)
    try:
        mine = learn(assembled, questions, tuning, asking)
    except FAULTS as error:
        return formats, Check("gradients", False, f"a training step cannot be made: {error}")
    memory = checked("memory", lambda: planned(mine.took))
    model.eval()
    before = told_before(reference, questions)
    trained = {
        name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters() if name in mine.start
    }
    without_adapters(model)
    _put(model, mine.start)
    count = sum(map(len, before))
    checks = learning_checks(assembled, reference, questions, tuning, mine, gradient_tolerance, count)
    _put(model, mine.start)
    saved = saving_checks(assembled, reference, questions, replace(saving, tuning=tuning), trained, before)
    return (formats, *checks, memory, *saved)


def _without_dropout(tuning: Tuning) -> Tuning:
    def plain(how: PartTuning) -> PartTuning:
        return replace(how, lora=replace(how.lora, dropout=0.0))

    return Tuning(plain(tuning.vision), plain(tuning.projector), plain(tuning.language))


def _put(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        if name in values:
            parameter.detach().copy_(values[name].to(parameter))


def format_check(model: Model, *, precision: Precision) -> Check:
    """Returns the check that what learns is stored in float32, other matrices in what the model computes in."""
    return checked("number format", lambda: _formats(model, frozen_type(precision)))


def _formats(model: Model, frozen: torch.dtype) -> Finding:
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            continue
        wanted = torch.float32 if parameter.requires_grad else frozen
        # Vectors that do not learn, such as those of norms, may be kept wider.
        wide = parameter.dim() <= 1 and parameter.dtype == torch.float32
        if parameter.dtype != wanted and not wide:
            kind = "learns and" if parameter.requires_grad else "does not learn and"
            return False, f"{name} {kind} is stored as {_short(parameter.dtype)}, expected {_short(wanted)}"
        said = f"{_short(parameter.dtype)} {'learns' if parameter.requires_grad else 'is frozen'}"
        counts[said] = counts.get(said, 0) + 1
    return True, "; ".join(f"{said}: {count} tensors" for said, count in sorted(counts.items()))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
