"""Corpus BLEU of free text, as pycocoevalcap counts it: split at white space, case kept, no tokeniser."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from medtune.eval.metric import Metric, sums_of_rows
from medtune.eval.statistics import Floats

_ORDER = 4
_TINY, _SMALL = 1e-15, 1e-9


def bleu1() -> Metric:
    """Corpus BLEU-1 of single words, 0 to 1; an unparsable reply is an empty text.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "the liver is of normal size", "text", "p")
    >>> round(bleu1().value([ParsedReply(asked, None, "the liver is of small size")]), 4)
    0.8333

    Source: Papineni et al. 2002, doi:10.3115/1073083.1073135; constants of pycocoevalcap 1.2, bleu_scorer.py.
    """
    return corpus_bleu(1)


def bleu2() -> Metric:
    """Corpus BLEU-2 of one and two words, 0 to 1; an unparsable reply is an empty text.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "the liver is of normal size", "text", "p")
    >>> round(bleu2().value([ParsedReply(asked, None, "the liver is of small size")]), 4)
    0.7071

    Source: Papineni et al. 2002, doi:10.3115/1073083.1073135; constants of pycocoevalcap 1.2, bleu_scorer.py.
    """
    return corpus_bleu(2)


def bleu3() -> Metric:
    """Corpus BLEU-3 of one to three words, 0 to 1; an unparsable reply is an empty text.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "the liver is of normal size", "text", "p")
    >>> round(bleu3().value([ParsedReply(asked, None, "the liver is of small size")]), 4)
    0.63

    Source: Papineni et al. 2002, doi:10.3115/1073083.1073135; constants of pycocoevalcap 1.2, bleu_scorer.py.
    """
    return corpus_bleu(3)


def bleu4() -> Metric:
    """Corpus BLEU-4, 0 to 1; an unparsable reply is an empty text.

    It is computed for all texts together and is not a mean over texts: n-gram matches and lengths are summed before
    the formula is applied. A text of fewer than four words has no 4-grams and lowers the score, even if it is exact.

    >>> from medtune.data.types import Question
    >>> from medtune.eval.metric import ParsedReply
    >>> asked = Question("q", "m", "Report?", (), "the liver is of normal size", "text", "p")
    >>> round(bleu4().value([ParsedReply(asked, None, "the liver is of normal size")]), 6)
    1.0

    Source: Papineni et al. 2002, doi:10.3115/1073083.1073135; constants of pycocoevalcap 1.2, bleu_scorer.py.
    """
    return corpus_bleu(_ORDER)


def corpus_bleu(order: int, *, form: Callable[[str], str] = str) -> Metric:
    """Returns corpus BLEU-`order`, 0 to 1, of the parsed replies; an unparsable reply is an empty text.

    Args:
        order: The words of the longest n-grams, 1 to 4.
        form: Brings both texts into the form in which they are compared, e.g. `normalised`; by default they stay as
            they are.
    """
    return Metric(
        sums_of_rows(
            lambda row: bleu_counts(form(row.parsed or ""), form(row.question.answer)),
            lambda sums: bleu_of_counts(sums, order=order),
        )
    )


def bleu_counts(text: str, reference: str) -> list[float]:
    """Returns the ten counts that a text adds to corpus BLEU: two lengths, its 1- to 4-grams, and the matching ones."""
    said, wanted = text.split(), reference.split()
    orders = range(1, _ORDER + 1)
    guesses = [max(0, len(said) - order + 1) for order in orders]
    matches = [(_ngrams(said, order) & _ngrams(wanted, order)).total() for order in orders]
    return [len(said), len(wanted), *guesses, *matches]


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))


def bleu_of_counts(sums: Floats, *, order: int = _ORDER) -> Floats:
    """Returns BLEU-`order` of summed counts of shape (..., 10); tiny constants avoid a division by zero."""
    length, reference = sums[..., 0], sums[..., 1]
    guesses, matches = sums[..., 2 : 2 + order], sums[..., 2 + _ORDER : 2 + _ORDER + order]
    precision = np.prod((matches + _TINY) / (guesses + _SMALL), axis=-1) ** (1 / order)
    ratio = (length + _TINY) / (reference + _SMALL)
    bleu: Floats = precision * np.exp(np.minimum(0.0, 1 - 1 / ratio))
    return bleu
