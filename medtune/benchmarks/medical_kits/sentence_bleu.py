"""BLEU of one reply without smoothing, as the kits compute it with nltk's `sentence_bleu`.

An order of n-grams without any match does not give 0 but the smallest normal float, so that a right answer of two
words has a BLEU-3 of about 1e-103.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence


def sentence_bleu(tokens: Sequence[str], reference: Sequence[str], weights: Sequence[float]) -> float:
    """Returns the BLEU of a reply's tokens against one reference, 0 to 1.

    Args:
        tokens: The tokens of the reply.
        reference: The tokens of the true answer.
        weights: The weight of each order of n-grams, from single tokens upwards.

    Example:
        >>> sentence_bleu(["left", "lung"], ["left", "lung"], [0.5, 0.5]), sentence_bleu([], ["lung"], [1.0])
        (1.0, 0.0)

    Source:
        nltk 3.9, nltk/translate/bleu_score.py (sentence_bleu with its default smoothing, which is none); Papineni et
        al. 2002, doi:10.3115/1073083.1073135.
    """
    matches = [_matches(tokens, reference, order) for order in range(1, len(weights) + 1)]
    if not matches[0]:
        return 0.0
    guesses = [max(1, len(tokens) - order + 1) for order in range(1, len(weights) + 1)]
    precisions = [match / guess if match else sys.float_info.min for match, guess in zip(matches, guesses, strict=True)]
    brevity = 1.0 if len(tokens) > len(reference) else math.exp(1 - len(reference) / len(tokens))
    logarithms = (weight * math.log(precision) for weight, precision in zip(weights, precisions, strict=True))
    return brevity * math.exp(math.fsum(logarithms))


def _matches(tokens: Sequence[str], reference: Sequence[str], order: int) -> int:
    return (_ngrams(tokens, order) & _ngrams(reference, order)).total()


def _ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
