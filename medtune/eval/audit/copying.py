"""Rows about answers taken from the train split: right by habit where habit is right, and wrong where it is wrong.

An answer that is copied gives itself away where the copied answer is wrong: a model that looks has no reason to give
just that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from medtune.eval.audit.row import AuditRow
from medtune.eval.audit.subject import Subject
from medtune.eval.statistics import intervals


def copying_row(
    subject: Subject, name: str, title: str, copied: Sequence[str | None], *, note: str = ""
) -> AuditRow | None:
    """Returns how often the model gives the copied answer where that is wrong; None where it is never wrong.

    Flagged where the whole interval is nearer to 1 than to guessing.
    """
    places = [
        number
        for number, (answer, question) in enumerate(zip(copied, subject.questions, strict=True))
        if answer is not None and answer != question.answer
    ]
    if not places:
        return None
    said = subject.answers
    same = [float(said[number] == copied[number]) for number in places]
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
