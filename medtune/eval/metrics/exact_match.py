"""Share of open questions whose answer equals the true one, after normalisation or character by character."""

from medtune.eval.metric import Metric, mean_of_rows
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.parse_replies import is_open, same_text


def metric() -> Metric:
    """Returns the share of open answers that equal the true one after normalisation, 0 to 1.

    An unparsable or missing reply counts as wrong. `verbatim` is the same without any normalisation.

    >>> from medtune.data.types import Question
    >>> asked = Question("q", "m", "Where?", (), "left lobe", "text", "p")
    >>> metric().value([ParsedReply(asked, None, said) for said in ("The left lobe.", "lobe", "right lobe", None)])
    0.25

    Source: "EM" of SQuAD (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, section 6.1), with the normalisation
    of `medtune.eval.scoring.parse_replies`.
    """
    return Metric(mean_of_rows(_is_same), covers=is_open)


def verbatim() -> Metric:
    """Returns the share of open replies that are the true answer character by character, but for blanks at the ends.

    The whole reply counts, whatever the parser read from it, so that a full stop or a capital makes it wrong.

    >>> from medtune.data.types import Question
    >>> asked = Question("q", "m", "Where?", (), "left lobe", "text", "p")
    >>> verbatim().value([ParsedReply(asked, None, said) for said in ("left lobe ", "Left lobe", "left lobe.")])
    0.3333333333333333

    Source: Our definition: equal texts.
    """
    return Metric(mean_of_rows(_is_verbatim), covers=is_open)


def _is_same(row: ParsedReply) -> float:
    return float(row.parsed is not None and same_text(row.parsed, row.question.answer))


def _is_verbatim(row: ParsedReply) -> float:
    said = row.parsed if row.prediction is None else row.prediction.text
    return float(said is not None and said.strip() == row.question.answer.strip())
