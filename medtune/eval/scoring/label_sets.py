"""Several labels a picture, asked in one question or one by one: exact sets, F1, sensitivity, specificity.

Both ways to ask give the same cells: for each picture and label, whether it is so and whether the model says so. An
unreadable or missing reply counts as the wrong answer to each of its labels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Sums, dense_sums, mean_of
from medtune.eval.statistics.intervals import statistic_interval

LABELS, LABEL, SET = "labels", "label", "label_set"
"""What `Question.printed` holds: all labels of one question about them, a line each; or the label that a question is
about alone, and the question that it is a part of."""
BETWEEN, NOTHING = "; ", "none"
"""What stands between the labels of an answer, and the answer without any."""


class LabelCell(NamedTuple):
    """Whether a label is there, in truth and by the reply; an unreadable reply says the opposite of the truth."""

    label: str
    is_true: bool
    is_said: bool


def is_about_labels(question: Question) -> bool:
    """Returns whether a question asks for several labels, or for one label of several."""
    return LABELS in question.printed or LABEL in question.printed


def labels_of(question: Question) -> tuple[str, ...]:
    """Returns the labels among which a question asks for all that are there."""
    return tuple(question.printed[LABELS].split("\n"))


def joined_labels(labels: Sequence[str]) -> str:
    """Returns labels as an answer: "cyst; shadow", or "none"."""
    return BETWEEN.join(labels) or NOTHING


def label_cells(row: ParsedReply) -> list[LabelCell]:
    r"""Returns a cell for each label that the question is about.

    Example:
        >>> asked = Question("q", "m", "Which?", (), "cyst", "set", "p", printed={LABELS: "cyst\nshadow"})
        >>> [tuple(cell) for cell in label_cells(ParsedReply(asked, None, "cyst; shadow"))]
        [('cyst', True, True), ('shadow', False, True)]
        >>> [tuple(cell) for cell in label_cells(ParsedReply(asked, None, None))]
        [('cyst', True, False), ('shadow', False, True)]
    """
    question, said = row.question, row.parsed
    if LABEL in question.printed:
        is_true = question.answer == question.options[0]
        return [
            LabelCell(question.printed[LABEL], is_true, not is_true if said is None else said == question.options[0])
        ]
    true = question.answer.split(BETWEEN)
    parts = None if said is None else said.split(BETWEEN)
    return [
        LabelCell(label, label in true, label not in true if parts is None else label in parts)
        for label in labels_of(question)
    ]


def exact_set() -> Metric:
    """Returns the share of pictures all of whose labels are answered right, 0 to 1; each question counts its part.

    Source:
        Subset accuracy: scikit-learn, `accuracy_score` of label indicators.
    """
    return Metric(_exact_sets, covers=is_about_labels)


def micro_f1() -> Metric:
    """Returns 2 TP / (2 TP + FP + FN) over all labels of all pictures, 0 to 1; 0 where nothing is true or said.

    Source:
        scikit-learn, `f1_score(average="micro", zero_division=0)` of label indicators.
    """
    return Metric(lambda rows: _label_sums(rows, lambda sums: _f1(sums.sum(axis=-2))), covers=is_about_labels)


def macro_f1() -> Metric:
    """Returns the mean over the labels of each label's F1, 0 to 1; labels that are neither true nor said are left out.

    Source:
        scikit-learn, `f1_score(average="macro", zero_division=np.nan)` of label indicators.
    """
    return Metric(lambda rows: _label_sums(rows, _mean_f1), covers=is_about_labels)


def _exact_sets(rows: Sequence[ParsedReply]) -> Sums:
    sets: dict[object, list[int]] = {}
    for number, row in enumerate(rows):
        question = row.question
        is_part = LABEL in question.printed
        key = (question.media_id, question.turns, question.printed[SET]) if is_part else number
        sets.setdefault(key, []).append(number)
    table = np.zeros((len(rows), 2))
    for numbers in sets.values():
        table[numbers] = [all(rows[number].correct for number in numbers) / len(numbers), 1 / len(numbers)]
    return dense_sums(table, lambda sums: sums[..., 0] / sums[..., 1])


def _label_sums(rows: Sequence[ParsedReply], value: Callable[[Floats], Floats]) -> Sums:
    cells = [(number, cell) for number, row in enumerate(rows) for cell in label_cells(row)]
    places = {label: place for place, label in enumerate(sorted({cell.label for _, cell in cells}))}
    added = [
        (number, 3 * places[cell.label] + column)
        for number, cell in cells
        for column, counts in enumerate((cell.is_true and cell.is_said, cell.is_true, cell.is_said))
        if counts
    ]
    return Sums(
        rows=np.array([number for number, _ in added], dtype=np.intp),
        columns=np.array([column for _, column in added], dtype=np.intp),
        values=np.ones(len(added)),
        num_rows=len(rows),
        width=3 * len(places),
        finish=lambda sums: value(sums.reshape(*sums.shape[:-1], len(places), 3)),
    )


def _f1(sums: Floats) -> Floats:
    seen = sums[..., 1] + sums[..., 2]
    return np.divide(2 * sums[..., 0], seen, out=np.zeros_like(seen), where=seen > 0)


def _mean_f1(sums: Floats) -> Floats:
    number = (sums[..., 1] + sums[..., 2] > 0).sum(axis=-1)
    mean: Floats = _f1(sums).sum(axis=-1) / np.maximum(number, 1)
    return mean


def label_table(rows: Sequence[ParsedReply]) -> Table:
    """Returns sensitivity, specificity and F1 of each label, with 95 % intervals in which patients are clusters."""
    by_label: dict[str, list[tuple[str, LabelCell, bool]]] = {}
    for row in rows:
        is_unread = row.prediction is not None and row.parsed is None
        for cell in label_cells(row):
            by_label.setdefault(cell.label, []).append((row.question.patient_id, cell, is_unread))
    return Table(
        "Labels",
        ("label", "pictures", "with it", "unreadable", *_share("sensitivity"), *_share("specificity"), "F1"),
        tuple((label, *_of_label(cells)) for label, cells in by_label.items()),
        (
            "Sensitivity is the share found of the pictures with the label, specificity that of the others where it "
            "is not said; the 95 % intervals count patients. Unreadable replies are wrong in both.",
        ),
    )


def _share(name: str) -> tuple[str, str, str]:
    return name, f"{name} low", f"{name} high"


def _of_label(cells: Sequence[tuple[str, LabelCell, bool]]) -> tuple[Cell, ...]:
    rest = [(patient, cell.is_said == cell.is_true, cell.is_true) for patient, cell, _ in cells]
    sums = np.array([[c.is_true and c.is_said, c.is_true, c.is_said] for _, c, _ in cells], dtype=np.float64).sum(
        axis=0
    )
    number, unread = int(sums[1]), sum(is_unread for *_, is_unread in cells)
    found = [[(patient, right) for patient, right, is_true in rest if is_true == wanted] for wanted in (True, False)]
    return len(cells), number, unread, *_with_interval(found[0]), *_with_interval(found[1]), float(_f1(sums))


def _with_interval(found: Sequence[tuple[str, bool]]) -> tuple[float | None, float | None, float | None]:
    if not found:
        return None, None, None
    right = [float(is_right) for _, is_right in found]
    statistic = mean_of(right)
    low, high = statistic_interval(statistic, [patient for patient, _ in found], right=right)
    return statistic.value(), low, high
