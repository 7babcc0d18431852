"""Rows of the same model without the image: what it still knows comes from somewhere else."""

from __future__ import annotations

from medtune.data.types import Condition
from medtune.eval.audit.row import AuditRow, accuracy_row, flagged
from medtune.eval.audit.subject import Subject
from medtune.eval.statistics import intervals

LEAK_MARGIN = 0.10
"""How far above the question prior a model without its image may be: the margin of our demo's acceptance."""
IMAGE_MARGIN = 0.0
PROMPT_LEAK = "prompt_leak"

_BLIND: dict[Condition, tuple[str, str]] = {
    "text_only": ("the same model without the image", "the prompt has no image at all"),
    "blank_image": ("the same model with a black image", "black, without boxes"),
    "other_image": ("the same model with another patient's image", "of the same kind, red box included"),
}


def blind_rows(subject: Subject) -> list[AuditRow]:
    """Returns text_only, blank_image and other_image as far as they were asked, and prompt_leak.

    A row is flagged where the model is not surely better with its image. `prompt_leak` is what text_only has above the
    question prior (above guessing, where there is no train split): it is flagged where the whole interval is more than
    `LEAK_MARGIN` above 0, for then the answer can be read from the prompt.
    """
    rows = []
    for condition, (title, note) in _BLIND.items():
        seen = subject.seen(condition)
        if seen is None:
            continue
        right = subject.right_of([row.parsed for row in seen])
        row = accuracy_row(
            condition, title, right, subject.patients, model=subject.right, phase=subject.phase, note=note
        )
        ignores = row.gap is not None and row.gap.ci95.low <= IMAGE_MARGIN
        rows.append(flagged(row, "the image is ignored: the model is not surely better with it" if ignores else None))
        if condition == "text_only":
            rows.append(_prompt_leak(subject, right))
    return rows


def _prompt_leak(subject: Subject, right: list[float]) -> AuditRow:
    learnt = subject.learnt
    floor = [1 / len(question.options) for question in subject.questions]
    floor_name = "guessing"
    if learnt:
        prior = subject.right_of(subject.answered(learnt.prior))
        if sum(prior) > sum(floor):
            floor, floor_name = prior, "the question prior"
    above = intervals.gain_interval(floor, right, subject.patients)
    value = (sum(right) - sum(floor)) / len(right)
    leaks = above.low > LEAK_MARGIN
    return AuditRow(
        PROMPT_LEAK,
        f"without the image, above {floor_name}",
        subject.phase,
        "accuracy difference",
        value,
        len(right),
        above,
        flag="the answer can be read from the prompt" if leaks else None,
        note=f"accuracy of text_only minus that of {floor_name}, paired by question",
    )
