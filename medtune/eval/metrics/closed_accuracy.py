"""Share of closed questions answered right; unparsable and unanswered ones count as wrong."""

from medtune.eval.metric import Metric
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.parse_replies import is_closed


def metric() -> Metric:
    """Returns the share of right answers, 0 to 1, among the questions that list their answers.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.parsed_reply import ParsedReply
    >>> closed = Question("q", "m", "Is it so?", ("yes", "no"), "no", "yes_no", "p")
    >>> opened = Question("r", "m", "What is it?", (), "no", "text", "p")
    >>> rows = [ParsedReply(closed, None, "no"), ParsedReply(closed, None, None), ParsedReply(opened, None, "yes")]
    >>> metric().value(metric().covered(rows))
    0.5

    Source: `accuracy`, as it is reported for sets with closed and open questions ("closed accuracy").
    """
    return accuracy().only(is_closed)
