"""Makes multiple-choice questions: draws distractors from a task's labels and shuffles the options by seed."""

from collections.abc import Mapping, Sequence

from medtune.data.seeding import stable_order
from medtune.data.types import Question, Split


def choice_question(
    question_id: str,
    *,
    media_id: str,
    text: str,
    answer: str,
    labels: Sequence[str],
    patient_id: str,
    facets: Mapping[str, str],
    seed: int,
    num_options: int | None = None,
    split: Split | None = None,
) -> Question:
    """Makes a multiple-choice question of a raw label: answer and distractors, shuffled by (seed, question_id).

    Args:
        question_id: The id of the question.
        media_id: The media item that the question is about.
        text: The question itself.
        answer: The true answer, one of `labels`.
        labels: All answers that the task has; distractors are drawn from them.
        patient_id: The patient that the question is about.
        facets: The properties by which scores are broken down.
        seed: Decides the distractors and their order.
        num_options: The number of options including the answer; None, or more than there are labels, shows all labels.
        split: The split, if the files come with one.
    """
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise ValueError(f"options of a question must differ, {', '.join(map(repr, twice))} come more than once.")
    if answer not in labels:
        raise ValueError(f"the answer {answer!r} is not among the options {', '.join(map(repr, labels))}.")
    wanted = len(labels) if num_options is None else min(num_options, len(labels))
    if wanted < 2:
        raise ValueError(f"a choice needs at least two options, there would be {wanted}. Give more labels or options.")
    others = [label for label in labels if label != answer]
    distractors = stable_order(others, seed, question_id, "distractors")[: wanted - 1]
    return Question(
        id=question_id,
        media_id=media_id,
        text=text,
        options=tuple(stable_order([answer, *distractors], seed, question_id, "order")),
        answer=answer,
        answer_kind="choice",
        patient_id=patient_id,
        facets=dict(facets),
        split=split,
    )
