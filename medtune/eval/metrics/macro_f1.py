"""Mean of the F1 scores of all labels; an unparsable answer is a label of its own that is never true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medtune.eval.benchmark import Judged


def metric(judged: Sequence[Judged]) -> float:
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
    true = Counter[str | None](row.question.answer for row in judged)
    said = Counter(row.parsed for row in judged)
    hits = Counter(row.parsed for row in judged if row.correct)
    labels = true.keys() | said.keys()
    # Sorted, because floating-point sums depend on order and that of a set of strings changes per process.
    scores = sorted(2 * hits[label] / (true[label] + said[label]) for label in labels)
    return sum(scores) / len(scores)
