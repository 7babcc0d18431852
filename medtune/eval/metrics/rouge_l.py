"""Mean ROUGE-L of free text, as pycocoevalcap computes it: beta 1.2, split at single blanks, case kept."""

from __future__ import annotations

from collections.abc import Sequence

from pycocoevalcap.rouge.rouge import Rouge

from medtune.eval.benchmark import ParsedReply, SummedMetric
from medtune.eval.statistics.summed_metric import Sums, mean_of


@SummedMetric
def metric(parsed: Sequence[ParsedReply]) -> Sums:
    """Returns the mean ROUGE-L, 0 to 1, of the parsed replies; an unparsable reply is an empty text.

    Raises:
        ValueError: There are no questions.

    Example:
        >>> from medtune.data.types import Question
        >>> asked = Question("q", "m", "Report?", (), "a b c d", "text", "p")
        >>> metric([ParsedReply(asked, None, "a b c d"), ParsedReply(asked, None, None)])
        0.5

    Source:
        Lin 2004, https://aclanthology.org/W04-1013; pycocoevalcap 1.2, rouge.py.
    """
    if not parsed:
        raise ValueError("ROUGE-L needs at least one question, got none")
    return mean_of([rouge_l(row.parsed or "", row.question.answer) for row in parsed])


def rouge_l(text: str, reference: str) -> float:
    """Returns ROUGE-L of one text, 0 to 1. Two blanks in a row make an empty word, which costs."""
    return float(Rouge().calc_score([text], [reference]))
