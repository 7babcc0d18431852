"""Audit rows about answers without model and image: guessing, frequent train answers, option position and length."""

from dataclasses import replace

import numpy as np

from medtune.data.types import Question
from medtune.eval.audit.row import AuditRow, accuracy_row, flagged, flagged_if_level
from medtune.eval.audit.subject import Subject

CUE_MARGIN = 0.05
"""How far the whole interval of a cue has to lie above guessing for a flag. The value is our own choice."""


def guessing_rows(subject: Subject) -> list[AuditRow]:
    """Returns the rows "random", "constant_letter" and "longest_option", and with a train split two rows more.

    These two are "majority" and "question_prior". Each row is flagged if the model is not clearly better than it. The
    row "longest_option" is also flagged if always choosing the longest option is clearly better than guessing.
    """
    chance = [1 / len(question.options) for question in subject.questions]
    random = accuracy_row(
        "random", "guessing", chance, subject.patients, model=subject.right, note="mean of 1 / number of options"
    )
    rows = [replace(random, ci95=None)]
    if subject.learnt:
        learnt = subject.learnt
        rows += [
            subject.row_of(
                "majority",
                "most frequent train answer of the task",
                subject.answered(learnt.majority),
                note="ties go to the answer seen first",
            ),
            subject.row_of(
                "question_prior",
                "most frequent train answer to the same question and options",
                subject.answered(learnt.prior),
                note="the task's most frequent answer where train never asked it with these options",
            ),
        ]
    best = max(
        range(max(len(question.options) for question in subject.questions)),
        key=lambda place: sum(subject.right_of(subject.answered(lambda question: _at(question, place)))),
    )
    letter = subject.row_of(
        "constant_letter",
        "always the same position",
        subject.answered(lambda question: _at(question, best)),
        note=f"position {best + 1}, the best of all on these very questions, so it flatters",
    )
    longest = _longest_row(subject, float(np.mean(chance)))
    return [flagged_if_level(row) for row in [*rows, letter, longest]]


def longest_option(question: Question) -> str:
    """Returns the option with the most characters; if several are equally long, the first of them."""
    return max(question.options, key=len)


def _longest_row(subject: Subject, chance: float) -> AuditRow:
    row = subject.row_of(
        "longest_option",
        "always the longest option",
        subject.answered(longest_option),
        note="most characters; of several the one shown first",
    )
    is_cue = row.ci95 is not None and row.ci95.low > chance + CUE_MARGIN
    return flagged(row, f"the length of an option tells of the answer (guessing: {chance:.3f})" if is_cue else None)


def _at(question: Question, place: int) -> str | None:
    return question.options[place] if place < len(question.options) else None
