"""Audit rows about the same model with the frames of each video in another order: does the model use their order?"""

from collections.abc import Sequence

from medtune.eval.audit.row import AuditRow, accuracy_row, flagged
from medtune.eval.audit.subject import Subject, rights_in

SHUFFLED = "shuffled_frames"


def frame_order_rows(subject: Subject) -> list[AuditRow]:
    """Returns the row "shuffled_frames", and a row "shuffled_frames/TASK" for each task if there are several tasks.

    The list is empty if the condition "shuffled_frames" was not asked. The row of all questions is flagged if the model
    is not clearly better with the frames in their own order. The rows of single tasks are never flagged, because many
    questions about videos can be answered from one frame.
    """
    seen = subject.seen("shuffled_frames")
    if seen is None:
        return []
    right = rights_in(seen)
    everything = range(len(subject.questions))
    whole = _row(subject, right, everything, SHUFFLED, "the same model with the frames in another order")
    if whole.gap is not None and whole.gap.ci95.low <= 0:
        whole = flagged(whole, "the order of the frames is ignored: the model is not surely better with it")
    tasks: dict[str, list[int]] = {}
    for number, question in enumerate(subject.questions):
        tasks.setdefault(question.facets.get("task", ""), []).append(number)
    if len(tasks) < 2:
        return [whole]
    title = "frames in another order, "
    return [whole, *(_row(subject, right, part, f"{SHUFFLED}/{task}", title + task) for task, part in tasks.items())]


def _row(subject: Subject, right: Sequence[float], part: Sequence[int], name: str, title: str) -> AuditRow:
    return accuracy_row(
        name,
        title,
        [right[number] for number in part],
        [subject.patients[number] for number in part],
        model=[subject.right[number] for number in part],
        phase=subject.phase,
        note="every frame is shown, the times are those of the clip",
    )
