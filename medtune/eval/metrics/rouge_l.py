"""Mean ROUGE-L of free text, as pycocoevalcap computes it: beta 1.2, words split at single spaces, case kept."""

from collections.abc import Callable

from pycocoevalcap.rouge.rouge import Rouge

from medtune.eval.metric import Metric, mean_of_rows


def metric() -> Metric:
    """Returns the mean ROUGE-L, 0 to 1, of the parsed replies; an unparsable reply is an empty text.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "a b c d", "text", "p")
    >>> metric().value([ParsedReply(asked, None, "a b c d"), ParsedReply(asked, None, None)])
    0.5

    Source: Lin 2004, https://aclanthology.org/W04-1013; pycocoevalcap 1.2, rouge.py.
    """
    return mean_rouge_l()


def mean_rouge_l(*, form: Callable[[str], str] = str) -> Metric:
    """Returns the mean ROUGE-L, 0 to 1, of the parsed replies, with both texts in the form that `form` returns."""
    return Metric(mean_of_rows(lambda row: rouge_l(form(row.parsed or ""), form(row.question.answer))))


def rouge_l(text: str, reference: str) -> float:
    """Returns ROUGE-L of one text, 0 to 1. Two spaces in a row make an empty word, which lowers the score."""
    return float(Rouge().calc_score([text], [reference]))
