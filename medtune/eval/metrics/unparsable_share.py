"""Share of replies from which no answer could be read; questions without a reply do not count."""

import numpy as np

from medtune.eval.metric import Metric, ParsedReply, sums_of_rows
from medtune.eval.statistics import Floats


def metric() -> Metric:
    """Returns the number of unparsable replies over that of all replies, 0 to 1, or 0 without replies; lower is better.

    >>> from medtune.data.types import Prediction, PredictionKey, Question
    >>> asked = Question("q", "m", "Which?", ("benign", "normal"), "normal", "choice", "p")
    >>> said = Prediction(PredictionKey("q", "image", "generation", 0), text="Hm.")
    >>> replies = [(said, None), (said, "normal"), (None, None)]
    >>> metric().value([ParsedReply(asked, *reply) for reply in replies])
    0.5

    Source: Our definition: a reply is unparsable where the parser returns None.
    """
    return Metric(sums_of_rows(_counts, _share), worst=1.0, best=0.0)


def _counts(row: ParsedReply) -> tuple[bool, bool]:
    return row.prediction is not None and row.parsed is None, row.prediction is not None


def _share(sums: Floats) -> Floats:
    share: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return share
