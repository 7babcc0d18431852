"""Audit rows about answers that the model copies from the train split.

Copying shows on questions whose copied answer is wrong: a model that looks at the image has no reason to prefer that
wrong answer to the others.
"""

from collections.abc import Sequence

from medtune.eval.audit.row import AuditRow
from medtune.eval.audit.subject import Subject
from medtune.eval.statistics import intervals


def copying_row(
    subject: Subject, name: str, title: str, copied: Sequence[str | None], *, note: str = ""
) -> AuditRow | None:
    """Returns the row of how often the model gives the copied answer to questions for which that answer is wrong.

    The row is flagged if its whole interval is nearer to 1 than to guessing.

    Args:
        subject: The answers that are audited.
        name: Name of the row for programs.
        title: Name of the row for readers.
        copied: The copied answer to each question; None for questions without one.
        note: Added to the row's note.

    Returns:
        The row; None if no copied answer is wrong.
    """
    places = [
        number
        for number, (answer, question) in enumerate(zip(copied, subject.questions, strict=True))
        if answer is not None and answer != question.answer
    ]
    if not places:
        return None
    said = subject.answers
    same = [said[number].count(copied[number]) / len(said[number]) for number in places]
    asked = [subject.questions[number] for number in places]
    chance = sum(1 / len(question.options) for question in asked) / len(asked)
    interval = intervals.mean_interval(same, [question.patient_id for question in asked])
    value = sum(same) / len(same)
    flag = None
    if interval.low > (1 + chance) / 2:
        flag = f"the model copies: {value:.0%} of its answers follow it where it is wrong (guessing: {chance:.0%})"
    return AuditRow(
        name, title, subject.phase, "share", value, len(same), interval, flag=flag,
        note=f"of the questions where it is wrong; guessing would give {chance:.3f}{note and '; '}{note}",
    )  # fmt: skip
