"""Share of questions answered right; unparsable and unanswered ones count as wrong."""

from __future__ import annotations

from collections.abc import Sequence

from medtune.eval.benchmark import ParsedReply, SummedMetric
from medtune.eval.statistics.summed_metric import Sums, mean_of


@SummedMetric
def metric(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the share of right answers, 0 to 1.

    Raises:
        ValueError: There are no questions.

    Example:
        >>> from medtune.data.types import Question
        >>> asked = Question("q", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
        >>> metric([ParsedReply(asked, None, read) for read in ("normal", "benign", None)])
        0.3333333333333333

    Source:
        scikit-learn, `accuracy_score`, with an unparsable answer as a label of its own.
    """
    if not parsed:
        raise ValueError("accuracy needs at least one question, got none")
    return mean_of([row.correct for row in parsed])
