"""Audit rows about the same model without the image: no image, a black image or another patient's image."""

from medtune.data.types import Condition
from medtune.eval.audit.row import AuditRow, accuracy_row, flagged
from medtune.eval.audit.subject import Subject, rights_in
from medtune.eval.statistics import intervals

LEAK_MARGIN = 0.10
"""How far the accuracy without the image may lie above the question prior. Our demo is accepted with this margin."""
IMAGE_MARGIN = 0.0
PROMPT_LEAK = "prompt_leak"

_BLIND: dict[Condition, tuple[str, str]] = {
    "text_only": ("the same model without the image", "the prompt has no image at all"),
    "blank_image": ("the same model with a black image", "black, without boxes"),
    "other_image": ("the same model with another patient's image", "of the same kind, red box included"),
}


def blind_rows(subject: Subject) -> list[AuditRow]:
    """Returns the rows "text_only", "blank_image" and "other_image" if they were asked, and "prompt_leak".

    A row is flagged if the model is not clearly better with its own image, that is, if the interval of the difference
    includes 0 or lies below it; if it lies below, the flag says that the image misleads. The row "prompt_leak" exists
    if "text_only" was asked. Its value is the accuracy without any image minus the accuracy of the question prior, or
    of guessing if that is higher or there is no train split. It is flagged if the whole interval lies above
    `LEAK_MARGIN`, because the model then finds the answer in the prompt.
    """
    rows = []
    for condition, (title, note) in _BLIND.items():
        seen = subject.seen(condition)
        if seen is None:
            continue
        right = rights_in(seen)
        row = accuracy_row(
            condition, title, right, subject.patients, model=subject.right, phase=subject.phase, note=note
        )
        rows.append(flagged(row, _use_of_image(row)))
        if condition == "text_only":
            rows.append(_prompt_leak(subject, right))
    return rows


def _use_of_image(row: AuditRow) -> str | None:
    if row.gap is None or row.gap.ci95.low > IMAGE_MARGIN:
        return None
    if row.gap.ci95.high < 0:
        return "the image misleads: the model is surely better without its own image"
    return "the image is ignored: the model is not surely better with it"


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
