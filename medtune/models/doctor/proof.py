"""Asks medtune and plain transformers the same questions and compares everything that they do."""

from __future__ import annotations

from collections.abc import Sequence

from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking, answer_checks
from medtune.models.doctor.asked import AskedQuestion
from medtune.models.doctor.check import Check
from medtune.models.doctor.hidden_answers import hidden_check
from medtune.models.doctor.leaks import leak_check
from medtune.models.doctor.reference import Reference
from medtune.models.doctor.sequences import sequence_checks


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
        hidden_check(assembled, questions, asking),
        leak_check(assembled, questions, asking),
    )
