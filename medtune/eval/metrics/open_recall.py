"""Mean share of the true answer's words that stand in the answers to open questions, after normalisation."""

from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.metrics.token_f1 import token_recall
from medtune.eval.scoring.parse_replies import is_open


def metric() -> Metric:
    """Returns the mean token recall of open answers, 0 to 1; an unparsable reply is an empty text.

    Needless words cost nothing, so that long replies score high and "not normal" has 1 for the truth "normal". It is
    shown because others report it; it never is the primary metric where another one is defined.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.parsed_reply import ParsedReply
    >>> asked = Question("q", "m", "What?", (), "liver mass", "text", "p")
    >>> metric().value([ParsedReply(asked, None, said) for said in ("The liver.", "a mass of the liver", None)])
    0.5

    Source: Open-set recall of LLaVA-Med (Li et al. 2023, https://arxiv.org/abs/2306.00890, section 5.2), with the
    normalisation of `medtune.eval.scoring.parse_replies` and each word counted as often as it stands.
    """
    return Metric(mean_of_rows(lambda row: token_recall(row.parsed or "", row.question.answer)), covers=is_open)
