"""Mean F1 of the words of open answers, after normalisation; the order of the words does not count."""

from collections import Counter

from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.scoring.parse_replies import is_open, normalised


def metric() -> Metric:
    """Returns the mean token F1 of open answers, 0 to 1; an unparsable reply is an empty text.

    A word counts as often as it stands in both texts. It says how much of the words is shared, not whether an answer is
    right: "not normal" has two thirds for the truth "normal".

    >>> from medtune.data.types import Question
    >>> from medtune.eval.parsed_reply import ParsedReply
    >>> asked = Question("q", "m", "Where?", (), "normal", "text", "p")
    >>> metric().value([ParsedReply(asked, None, said) for said in ("Normal.", "not normal", None)])
    0.5555555555555555

    Source: "F1" of SQuAD (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1), with the normalisation
    of `medtune.eval.scoring.parse_replies`.
    """
    return Metric(mean_of_rows(lambda row: token_f1(row.parsed or "", row.question.answer)), covers=is_open)


def token_f1(text: str, reference: str) -> float:
    """Returns the F1 of the words of a text against a reference; without any words in both, 1 if they are equal."""
    said, true = normalised(text).split(), normalised(reference).split()
    shared = (Counter(said) & Counter(true)).total()
    if not said and not true:
        return float(text.strip() == reference.strip())
    return 2 * shared / (len(said) + len(true))


def token_recall(text: str, reference: str) -> float:
    """Returns the share of the reference's words that stand in a text; without any words in both, 1 if they are equal.

    >>> token_recall("a mass in the liver", "large liver mass"), token_recall("", "liver")
    (0.6666666666666666, 0.0)
    """
    said, true = normalised(text).split(), normalised(reference).split()
    if not true:
        return float(text.strip() == reference.strip())
    return (Counter(said) & Counter(true)).total() / len(true)
