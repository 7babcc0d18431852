"""Share of replies from which no answer could be read; unanswered questions are not replies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medtune.eval.benchmark import ParsedReply, SummedMetric
from medtune.eval.statistics.summed_metric import Floats, Sums, dense_sums


@SummedMetric
def metric(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns unparsable replies / replies, 0 to 1; lower is better, and 0 where there is no reply.

    Raises:
        ValueError: There are no questions.

    Example:
        >>> from medtune.data.types import Prediction, PredictionKey, Question
        >>> asked = Question("q", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
        >>> said = Prediction(PredictionKey("q", "image", "generation", 0), text="Hm.")
        >>> metric([ParsedReply(asked, said, None), ParsedReply(asked, said, "normal"), ParsedReply(asked, None, None)])
        0.5

    Source:
        Our definition: a reply is unparsable where the parser returns None.
    """
    if not parsed:
        raise ValueError("the unparsable share needs at least one question, got none")
    replies = [(row.prediction is not None and row.parsed is None, row.prediction is not None) for row in parsed]
    return dense_sums(np.array(replies, dtype=np.float64), _share)


def _share(sums: Floats) -> Floats:
    share: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return share
