"""Mean ROUGE-L of free text, as pycocoevalcap computes it: beta 1.2, words split at single spaces, case kept."""

from collections.abc import Callable, Sequence

from medtune.eval.metric import Metric, mean_of_rows

_BETA = 1.2
"""How much more recall counts than precision."""


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
    said, wanted = text.split(" "), reference.split(" ")
    common = subsequence_length(said, wanted)
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(wanted)
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def subsequence_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence of two lists of words.

    A whole row of the usual table is one number, whose zero bits are the places at which the length grows.

    >>> subsequence_length("the left lung is clear".split(), "the lung is very clear".split())
    4

    Source: Hyyro 2004, Bit-parallel LCS-length computation revisited (AWOCA 2004).
    """
    places: dict[str, int] = {}
    for number, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << number
    whole = (1 << len(one)) - 1
    row = whole
    for word in other:
        grown = row & places.get(word, 0)
        row = ((row + grown) | (row - grown)) & whole
    return len(one) - row.bit_count()
