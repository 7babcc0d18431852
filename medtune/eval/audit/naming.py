"""The audit row about the same model with the right answer stated in the prompt: can it use the answer format?"""

from medtune.eval.audit.row import AuditRow, accuracy_row, flagged
from medtune.eval.audit.subject import Subject, rights_in

NAMED_SHARE = 0.9
"""The accuracy that a model which can use the answer format should reach. The value is our own choice."""


def naming_rows(subject: Subject) -> list[AuditRow]:
    """Returns the row "stated_answer"; an empty list if the condition was not asked.

    The model sees the question's own image, and the prompt ends with the right answer in words. A model that fails here
    cannot answer in the wanted format: for instance, it cannot find the letter of an option. If it succeeds here, its
    mistakes elsewhere are due to answers that it does not know. The row is flagged if its whole interval lies below
    `NAMED_SHARE`.
    """
    seen = subject.seen("stated_answer")
    if seen is None:
        return []
    chance = sum(1 / len(question.options) for question in subject.questions) / len(subject.questions)
    row = accuracy_row(
        "stated_answer",
        "the same model with the right answer stated in words (letter binding)",
        rights_in(seen),
        subject.patients,
        model=subject.right,
        phase=subject.phase,
        note=f"own image; all that is left to do is to name the option; guessing gives {chance:.3f}",
    )
    fails = row.ci95 is not None and row.ci95.high < NAMED_SHARE
    flag = "the answer format is not learnt: the model cannot name the option that it is told" if fails else None
    return [flagged(row, flag)]
