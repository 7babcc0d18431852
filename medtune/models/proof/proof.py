"""Asks medtune and plain transformers the same questions, and compares everything."""

from collections.abc import Sequence

from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking, answer_checks
from medtune.models.proof.checks import Check
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.reference import Reference
from medtune.models.proof.sequences import sequence_checks


def proof(
    assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion], asking: Asking
) -> tuple[Check, ...]:
    """Returns the checks of tokens, pixels, positions, likelihoods, replies and sharing.

    The model is not changed. One copy of its weights is in memory; the reference runs the same weights.
    """
    assembled.model.eval()
    return (*sequence_checks(assembled, reference, questions), *answer_checks(assembled, reference, questions, asking))
