"""The row of the same model with the right answer stated in words: can it name an option at all?"""

from __future__ import annotations

from medtune.eval.audit.row import AuditRow, accuracy_row, flagged
from medtune.eval.audit.subject import Subject

NAMED_SHARE = 0.9
"""How often a model that can use the answer format should name the option that it is told: our own choice."""


def naming_rows(subject: Subject) -> list[AuditRow]:
    """Returns stated_answer; nothing where it was not asked.

    The model sees the question's own image, and its prompt ends with the right answer in words. One that fails here
    cannot answer in the format asked for, for instance find the letter of an option; one that does not lacked the
    answer. The row is flagged where its whole interval lies below `NAMED_SHARE`.
    """
    seen = subject.seen("stated_answer")
    if seen is None:
        return []
    chance = sum(1 / len(question.options) for question in subject.questions) / len(subject.questions)
    row = accuracy_row(
        "stated_answer",
        "the same model with the right answer stated in words (letter binding)",
        subject.right_of([row.parsed for row in seen]),
        subject.patients,
        model=subject.right,
        phase=subject.phase,
        note=f"own image; all that is left to do is to name the option; guessing gives {chance:.3f}",
    )
    fails = row.ci95 is not None and row.ci95.high < NAMED_SHARE
    flag = "the answer format is not learnt: the model cannot name the option that it is told" if fails else None
    return [flagged(row, flag)]
