"""Asks medtune and plain transformers the same questions, trains a step on both sides, and compares everything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking, answer_checks
from medtune.models.doctor.asked import AskedQuestion
from medtune.models.doctor.check import FAULTS, Check, Finding, checked
from medtune.models.doctor.learning import StepBytes, learn, learning_checks, stir
from medtune.models.doctor.plain_peft import without_adapters
from medtune.models.doctor.reference import Reference
from medtune.models.doctor.saving import Saving, saving_checks, told_before
from medtune.models.doctor.sequences import sequence_checks
from medtune.models.doctor.weights import format_check
from medtune.models.tuning.plan import PartTuning, Precision, Tuning


def proof(
    assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion], asking: Asking
) -> tuple[Check, ...]:
    """Returns the checks of tokens, pixels, positions, likelihoods, replies and sharing.

    The model is not changed. One copy of its weights is in memory; the reference runs the same weights.

    Args:
        assembled: The model, on its device.
        reference: Plain transformers, from `reference_of`.
        questions: The questions, about ten.
        asking: How medtune asks them.
    """
    assembled.model.eval()
    return (
        *sequence_checks(assembled, reference, questions),
        *answer_checks(assembled, reference, questions, asking),
    )


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
        assembled: The model with its adapters, its parameters set to learn as the tuning says, on its device.
        reference: Plain transformers over the same modules.
        questions: A few questions for the batch.
        asking: Device and precision.
        saving: The tuning, and where files may be written.
        precision: The precision in which the model computes.
        gradient_tolerance: The largest relative difference of a gradient that is put down to rounding.
        planned: Compares the memory that the step took with the plan.
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
            parameter.data.copy_(values[name].to(parameter))
