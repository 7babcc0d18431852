"""Mean of the F1 scores of all labels; an unparsable answer is a label of its own that is never true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medtune.eval.benchmark import Judged, SummedMetric
from medtune.eval.sums import Floats, Sums


@SummedMetric
def metric(judged: Sequence[Judged]) -> Sums:
    """Returns the unweighted mean F1, 0 to 1, over every label that is a truth or a parsed answer.

    A label that was answered but is never true has F1 = 0, and so has "unparsable": a single unreadable
    reply lowers the score by adding a label.

    Raises:
        ValueError: There are no questions.

    Example:
        >>> from medtune.data.types import Question
        >>> benign = Question("q", "m", "Which?", ("benign", "normal"), "benign", "choice", "p")
        >>> normal = Question("r", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
        >>> round(metric([Judged(benign, None, "benign"), Judged(normal, None, "benign")]), 4)
        0.3333

    Source:
        scikit-learn, `f1_score(average="macro", zero_division=0)`.
    """
    if not judged:
        raise ValueError("macro F1 needs at least one question, got none")
    # Sorted, because floating-point sums depend on order and that of a set of strings changes per process.
    labels = sorted({row.question.answer for row in judged} | {row.parsed for row in judged if row.parsed is not None})
    place: dict[str | None, int] = {label: number for number, label in enumerate([None, *labels])}
    true = np.array([place[row.question.answer] for row in judged])
    said = np.array([place[row.parsed] for row in judged])
    hits = np.flatnonzero(true == said)
    rows = np.arange(len(judged))
    return Sums(
        rows=np.concatenate([rows, rows, hits]),
        columns=np.concatenate([true, len(place) + said, 2 * len(place) + said[hits]]),
        values=np.ones(2 * len(judged) + hits.size),
        num_rows=len(judged),
        width=3 * len(place),
        finish=_macro_f1,
    )


def _macro_f1(sums: Floats) -> Floats:
    true, said, hits = np.split(sums, 3, axis=-1)
    seen = true + said
    scores = np.divide(2 * hits, seen, out=np.zeros_like(seen), where=seen > 0)
    mean: Floats = scores.sum(axis=-1) / (seen > 0).sum(axis=-1)
    return mean
