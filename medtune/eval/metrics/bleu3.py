"""Corpus BLEU-3 of free text, as pycocoevalcap counts it: split at white space, case kept, no tokeniser."""

from medtune.eval.metric import Metric
from medtune.eval.metrics.bleu4 import corpus_bleu


def metric() -> Metric:
    """Returns BLEU-3, 0 to 1, of one to three words; an unparsable reply is an empty text, and `bleu4` says the rest.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.parsed_reply import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "the liver is of normal size", "text", "p")
    >>> round(metric().value([ParsedReply(asked, None, "the liver is of small size")]), 4)
    0.63

    Source: Papineni et al. 2002, doi:10.3115/1073083.1073135; constants of pycocoevalcap 1.2, bleu_scorer.py.
    """
    return corpus_bleu(3)
