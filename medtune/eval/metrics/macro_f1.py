"""Mean of the F1 scores of all labels; "unparsable" counts as a label that is never true."""

from collections.abc import Sequence

import numpy as np

from medtune.data.types import Question
from medtune.eval.metric import Metric, ParsedReply, comparable
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import Sums


def metric() -> Metric:
    """Returns the unweighted mean F1, 0 to 1, over all labels that occur as a true or as a parsed answer.

    A label that is answered but never true has F1 = 0. The same holds for the label "unparsable", so that a single
    unparsable reply lowers the score. Free texts that are compared as equal, such as "Left" and "left.", are one label.

    >>> from medtune.data.types import Question
    >>> benign = Question("q", "m", "Which?", ("benign", "normal"), "benign", "choice", "p")
    >>> normal = Question("r", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
    >>> round(metric().value([ParsedReply(benign, None, "benign"), ParsedReply(normal, None, "benign")]), 4)
    0.3333

    Source: scikit-learn, `f1_score(average="macro", zero_division=0)`.
    """
    return Metric(_of_all_labels)


def _of_all_labels(parsed: Sequence[ParsedReply]) -> Sums:
    # Sorted, because a floating-point sum depends on the order of its terms, and the order of a set differs by process.
    true = [_label(row.question.answer, row.question) for row in parsed]
    said = [None if row.parsed is None else _label(row.parsed, row.question) for row in parsed]
    labels = sorted({*true, *(label for label in said if label is not None)})
    place: dict[str | None, int] = {label: number for number, label in enumerate([None, *labels])}
    return label_sums([place[label] for label in true], [place[label] for label in said], num_labels=len(place))


def _label(answer: str, question: Question) -> str:
    return comparable(answer) if question.answer_kind == "text" else answer


def label_sums(true: Sequence[int], said: Sequence[int], num_labels: int, starts: Sequence[int] = (0,)) -> Sums:
    """Returns the sums whose statistic is the macro F1 of numbered labels.

    Args:
        true: The true label of each row, 0 to `num_labels` - 1.
        said: The label that was read from the reply of each row.
        starts: The first label of each group of labels; the statistic is the mean of the groups' macro F1.
    """
    hits = np.flatnonzero(np.equal(true, said))
    rows = np.arange(len(true))

    def finish(sums: Floats) -> Floats:
        in_truth, in_answers, right = np.split(sums, 3, axis=-1)
        seen = in_truth + in_answers
        scores = np.divide(2 * right, seen, out=np.zeros_like(seen), where=seen > 0)
        labels = np.add.reduceat((seen > 0).astype(np.float64), starts, axis=-1)
        groups = np.add.reduceat(scores, starts, axis=-1) / np.maximum(labels, 1)
        mean: Floats = groups.sum(axis=-1) / (labels > 0).sum(axis=-1)
        return mean

    return Sums(
        rows=np.concatenate([rows, rows, hits]),
        columns=np.concatenate([true, num_labels + np.asarray(said), 2 * num_labels + np.asarray(said)[hits]]),
        values=np.ones(2 * len(true) + hits.size),
        num_rows=len(true),
        width=3 * num_labels,
        finish=finish,
    )
