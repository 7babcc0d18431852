"""Compares what learns, its gradients and one optimizer step with plain peft, over the same weights and questions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medtune.models.contract import Assembled, MediaItem
from medtune.models.media_reader import read_item
from medtune.models.proof.answers import Asking
from medtune.models.proof.checks import Check, Finding, checked
from medtune.models.proof.questions import AskedQuestion, laid_out
from medtune.models.proof.reference import Reference
from medtune.models.sequence.packing import Shown, balanced, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.apply import build_optimizer, parameters_by_part
from medtune.models.tuning.plan import Tuning
from tests.models.proof.plain_peft import PlainPeft, plain_peft, plain_step, scales_of

GRADIENT_TOLERANCE: Mapping[torch.dtype, float] = {torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.2}
"""The largest relative difference of a gradient, as a 2-norm, that is put down to rounding.

A gradient is a sum over thousands of products, each rounded to 8 binary digits in bfloat16 and to 11 in float16.
"""
STEP_TOLERANCE = 1e-6
"""The largest difference of a weight after a step from the same gradients, as a share of the weight.

AdamW computes in float32, whose spacing is 1.2e-7 of a number.
"""
FLOOR = 1e-3
"""A gradient below this share of the largest one is compared with that share, because rounding hides it."""
WEIGHT_DECAY = 0.01
SPREAD = 0.02
"""Standard deviation of the values that B gets before the comparison.

B begins at zero, where neither the scale of an adapter nor a gradient of A could be seen.
"""


@dataclass(frozen=True, slots=True)
class StepBytes:
    """The memory that a training step took."""

    weights: int
    learning: int  # Bytes of the gradients and of AdamW's moments.
    peak: int | None  # Largest number of bytes that were allocated on a GPU during the step; None on a CPU.
    tokens: int  # Number of tokens of the batch.


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one side learnt from a batch."""

    start: Mapping[str, Tensor]  # The parameters that learn, before the step, by name.
    gradients: Mapping[str, Tensor | None]  # Their gradients; None where a parameter got none.
    stepped: Mapping[str, Tensor]  # The parameters after one step.
    scales: Mapping[str, float]  # The scale of each adapter by the name of its layer.
    took: StepBytes


def stir(model: nn.Module, *, seed: int) -> None:
    """Gives the second matrix of every adapter small random values, in place."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            drawn = torch.randn(parameter.shape, generator=generator) * SPREAD
            parameter.detach().copy_(drawn.to(parameter))


def learn(assembled: Assembled, questions: Sequence[AskedQuestion], tuning: Tuning, asking: Asking) -> Learnt:
    """Makes one training step with medtune's own code and returns it; the model keeps the stepped weights."""
    model = assembled.model
    model.eval()
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    start = _copies(learning)
    model.zero_grad()
    items: list[MediaItem] = []
    trees: list[Shown] = []
    by_media: dict[str, list[tuple[int, AskedQuestion]]] = {}
    for number, asked in enumerate(questions):
        by_media.setdefault(asked.question.media_id, []).append((number, asked))
    for same in by_media.values():
        media = same[0][1].files
        place = len(items) if media else None
        items += [read_item(ref, assembled.transform) for ref in media]
        layouts = [laid_out(each, each.prompt.target, assembled.family, assembled.transform) for _, each in same]
        if model.plain_because is None:
            trees.append(Shown(grow(layouts, [number for number, _ in same]), place))
        else:
            trees += [Shown(grow([one], [number]), place) for one, (number, _) in zip(layouts, same, strict=True)]
    rows = pack(balanced(trees, row_tokens=0), pad_id=assembled.family.pad_id)
    on_gpu = asking.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(asking.device)
    with asking.precise():
        read = model(rows.to(asking.device), model.encode(assembled.transform.stack(items)) if items else None)
        loss = -read.logprobs_T.sum() / len(read.logprobs_T)
    loss.backward()
    gradients = {name: _gradient(p) for name, p in learning.items()}
    groups = parameters_by_part(model, tuning, weight_decay=WEIGHT_DECAY)
    optimizer = build_optimizer("adamw", groups, scaled_loss=False)
    optimizer.step()
    moments = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)]
    took = StepBytes(
        weights=_bytes(model.parameters()),
        learning=_bytes(moments) + _bytes(p.grad for p in learning.values() if p.grad is not None),
        peak=torch.cuda.max_memory_allocated(asking.device) if on_gpu else None,
        tokens=rows.num_tokens,
    )
    model.zero_grad()
    return Learnt(start, gradients, _copies(learning), scales_of(model), took)


def learning_checks(
    assembled: Assembled,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    tuning: Tuning,
    mine: Learnt,
    tolerance: float,
    num_targets: int,
) -> tuple[Check, ...]:
    """Returns the comparison of a step with that of plain peft.

    Args:
        assembled: The model, whose adapters have been taken out and whose weights are those before the step.
    """
    checks: list[Check] = []
    with plain_peft(assembled.model, tuning) as peft:
        checks.append(checked("what learns", lambda: _same_names(mine, peft)))
        checks.append(checked("adapter scale", lambda: _same_scales(mine, peft)))
        if all(check.passed is not False for check in checks):
            checks.append(
                checked("gradients", lambda: _same_gradients(mine, peft, reference, questions, tolerance, num_targets))
            )
            checks.append(checked("one step", lambda: _same_step(mine, peft, assembled, tuning)))
        else:
            checks += [
                Check(name, None, "not compared, because the two sides learn other parameters or other scales")
                for name in ("gradients", "one step")
            ]
    return tuple(checks)


def _same_names(mine: Learnt, peft: PlainPeft) -> Finding:
    missing = [name for name in peft.learning if name not in mine.start]
    more = [name for name in mine.start if name not in peft.learning]
    if missing:
        return False, f"{missing[0]} should learn and is frozen ({len(missing)} such parameters)"
    if more:
        return False, f"{more[0]} learns and should be frozen ({len(more)} such parameters)"
    return True, f"{len(mine.start)} parameters learn, the same ones as in peft; all others are frozen"


def _same_scales(mine: Learnt, peft: PlainPeft) -> Finding:
    for name, scale in peft.scales.items():
        if mine.scales.get(name) != scale:
            return False, f"{name}: the update is multiplied by {mine.scales.get(name)}, peft says {scale}"
    if not peft.scales:
        return None, "the recipe has no adapters"
    values = ", ".join(f"{value:g}" for value in sorted(set(peft.scales.values())))
    return True, f"{len(peft.scales)} adapters have peft's scale ({values})"


def _same_gradients(
    mine: Learnt,
    peft: PlainPeft,
    reference: Reference,
    questions: Sequence[AskedQuestion],
    tolerance: float,
    num_targets: int,
) -> Finding:
    for name, parameter in peft.learning.items():
        parameter.detach().copy_(mine.start[name].to(parameter))
    peft.model.eval()
    for asked in questions:
        # One question at a time, so that the activations of one are in memory.
        (-reference.logprobs(asked, asked.prompt.target).sum() / num_targets).backward()
    its = {name: p.grad.detach().float().cpu() for name, p in peft.learning.items() if p.grad is not None}
    peft.model.zero_grad()
    largest = max(float(gradient.norm()) for gradient in its.values())
    if extra := [name for name, gradient in mine.gradients.items() if gradient is not None and name not in its]:
        return False, f"{extra[0]} gets a gradient here, and none in peft"
    worst = 0.0
    for name, wanted in its.items():
        found = mine.gradients[name]
        if found is None:
            return False, f"{name} gets no gradient here, and one in peft"
        apart = float((found - wanted).norm()) / max(float(wanted.norm()), FLOOR * largest)
        if not apart <= tolerance:
            return False, (
                f"the gradient of {name} is {apart:.2g} off peft's, relative to its size ({float(found.norm()):.3g} "
                f"here, {float(wanted.norm()):.3g} there; allowed: {tolerance:g})"
            )
        worst = max(worst, apart)
    return True, (
        f"{len(its)} gradients of {len(questions)} questions are at most {worst:.2g} off peft's "
        f"(allowed: {tolerance:g})"
    )


def _same_step(mine: Learnt, peft: PlainPeft, assembled: Assembled, tuning: Tuning) -> Finding:
    for name, parameter in peft.learning.items():
        gradient = mine.gradients[name]
        parameter.detach().copy_(mine.start[name].to(parameter))
        parameter.grad = None if gradient is None else gradient.to(parameter)
    plain_step(peft.learning, assembled.model, tuning, weight_decay=WEIGHT_DECAY)
    moved = 0
    for name, parameter in peft.learning.items():
        start, found, wanted = mine.start[name], mine.stepped[name], parameter.detach().float().cpu()
        apart, moves = float((found - wanted).norm()), float((wanted - start).norm())
        # The step is added to the weight in float32, which rounds it to the weight's own digits.
        if not apart <= STEP_TOLERANCE * max(moves, float(start.norm())):
            return (
                False,
                f"{name} moves by {float((found - start).norm()):.3g} in one step of AdamW, expected {moves:.3g}",
            )
        moved += not torch.equal(found, start)
        parameter.detach().copy_(start.to(parameter))
    if not moved:
        return False, "no parameter moved in one step of AdamW"
    return True, f"one step of AdamW moves {moved} of {len(peft.learning)} parameters, as in torch and peft"


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def _copies(parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    return {name: p.detach().float().cpu().clone() for name, p in parameters.items()}


def _gradient(parameter: nn.Parameter) -> Tensor | None:
    return None if parameter.grad is None else parameter.grad.detach().float().cpu().clone()
