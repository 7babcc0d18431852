"""Metrics of closed questions, which list their answers, and of open ones, whose answers are compared as texts."""

from collections import Counter

from medtune.eval.metric import Metric, ParsedReply, mean_of_rows
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.normalised_text import normalised, same_text
from medtune.eval.scoring.parse_replies import is_closed, is_open


def closed_accuracy() -> Metric:
    """Share of right answers, 0 to 1, among the questions that list their answers.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> closed = Question("q", "m", "Is it so?", ("yes", "no"), "no", "yes_no", "p")
    >>> opened = Question("r", "m", "What is it?", (), "no", "text", "p")
    >>> rows = [ParsedReply(closed, None, "no"), ParsedReply(closed, None, None), ParsedReply(opened, None, "yes")]
    >>> closed_accuracy().value(closed_accuracy().covered(rows))
    0.5

    Source: `accuracy`, as it is reported for sets with closed and open questions ("closed accuracy").
    """
    return accuracy().only(is_closed)


def exact_match() -> Metric:
    """Share of open answers that equal the true one after normalisation, 0 to 1.

    An unparsable or missing reply counts as wrong.

    >>> from medtune.data.types import Question
    >>> asked = Question("q", "m", "Where?", (), "left lobe", "text", "p")
    >>> exact_match().value([ParsedReply(asked, None, said) for said in ("The left lobe.", "lobe", "right lobe", None)])
    0.25

    Source: "EM" of SQuAD (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1), with the normalisation
    of `medtune.eval.scoring.normalised_text`.
    """
    return Metric(mean_of_rows(_is_same), covers=is_open)


def _is_same(row: ParsedReply) -> float:
    return float(row.parsed is not None and same_text(row.parsed, row.question.answer))


def token_f1() -> Metric:
    """Mean F1 of the words of open answers, 0 to 1; an unparsable reply is an empty text.

    A word counts as often as it stands in both texts. It says how much of the words is shared, not whether an answer is
    right: "not normal" has two thirds for the truth "normal".

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Where?", (), "normal", "text", "p")
    >>> token_f1().value([ParsedReply(asked, None, said) for said in ("Normal.", "not normal", None)])
    0.5555555555555555

    Source: "F1" of SQuAD (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1), with the normalisation
    of `medtune.eval.scoring.normalised_text`.
    """
    return Metric(mean_of_rows(lambda row: f1_of_tokens(row.parsed or "", row.question.answer)), covers=is_open)


def open_recall() -> Metric:
    """Mean share of the true answer's words that stand in an open answer, 0 to 1.

    An unparsable reply is an empty text. Needless words cost nothing, so that long replies score high and "not normal"
    has 1 for the truth "normal". It is shown because others report it; it never is the primary metric where another one
    is defined.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "What?", (), "liver mass", "text", "p")
    >>> open_recall().value([ParsedReply(asked, None, said) for said in ("The liver.", "a mass of the liver", None)])
    0.5

    Source: Open-set recall of LLaVA-Med (Li et al. 2023, https://arxiv.org/abs/2306.00890, section 5.2), with the
    normalisation of `medtune.eval.scoring.normalised_text` and each word counted as often as it stands.
    """
    return Metric(mean_of_rows(lambda row: token_recall(row.parsed or "", row.question.answer)), covers=is_open)


def f1_of_tokens(text: str, reference: str) -> float:
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
