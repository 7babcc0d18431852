"""Share of replies from which no answer could be read; unanswered questions are not replies."""

from __future__ import annotations

from collections.abc import Sequence

from medtune.eval.benchmark import Judged


def metric(judged: Sequence[Judged]) -> float:
    """Returns unparsable replies / replies, 0 to 1; lower is better, and 0 where there is no reply.

    Raises:
        ValueError: There are no questions.

    Example:
        >>> from medtune.data.types import Prediction, PredictionKey, Question
        >>> asked = Question("q", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
        >>> said = Prediction(PredictionKey("q", "image", "generation", 0), text="Hm.")
        >>> metric([Judged(asked, said, None), Judged(asked, said, "normal"), Judged(asked, None, None)])
        0.5

    Source:
        Our definition: a reply is unparsable where the parser returns None.
    """
    if not judged:
        raise ValueError("the unparsable share needs at least one question, got none")
    replies = [row for row in judged if row.prediction is not None]
    return sum(row.parsed is None for row in replies) / len(replies) if replies else 0.0
