"""BLEU of one reply without smoothing, as the kits compute it with nltk's `sentence_bleu`.

An order of n-grams without any match does not give 0 but the smallest normal float, so that a right answer of two
words has a BLEU-3 of about 1e-103.

ROUGE of one reply as the package `rouge` 1.0.1 computes it: over sets of n-grams, with sentences cut at stops.

Repeated words count once, and a constant in the denominator keeps equal texts just below 1 (0.999999995).
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_NEVER_ZERO = 1e-8
"""What the package adds to precision + recall.

Source: rouge 1.0.1, rouge_score.py (f_r_p_rouge_n, rouge_l_summary_level).
"""


def sentence_bleu(tokens: Sequence[str], reference: Sequence[str], weights: Sequence[float]) -> float:
    """Returns the BLEU of a reply's tokens, 0 to 1; `weights` are those of the orders of n-grams from 1 up.

    >>> sentence_bleu(["left", "lung"], ["left", "lung"], [0.5, 0.5]), sentence_bleu([], ["lung"], [1.0])
    (1.0, 0.0)

    Source: nltk 3.9, nltk/translate/bleu_score.py (sentence_bleu with its default smoothing, which is none); Papineni
    et al. 2002, doi:10.3115/1073083.1073135.
    """
    matches = [(_ngrams(tokens, order) & _ngrams(reference, order)).total() for order in range(1, len(weights) + 1)]
    if not matches[0]:
        return 0.0
    guesses = [max(1, len(tokens) - order + 1) for order in range(1, len(weights) + 1)]
    precisions = [match / guess if match else sys.float_info.min for match, guess in zip(matches, guesses, strict=True)]
    brevity = 1.0 if len(tokens) > len(reference) else math.exp(1 - len(reference) / len(tokens))
    logarithms = (weight * math.log(precision) for weight, precision in zip(weights, precisions, strict=True))
    return brevity * math.exp(math.fsum(logarithms))


def _ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))


class RougeScores(NamedTuple):
    """The F values of one reply, 0 to 1: of words, of pairs of words, and of longest common subsequences."""

    rouge_1: float
    rouge_2: float
    rouge_l: float


def word_set_rouge(text: str, reference: str) -> RougeScores:
    """Returns the three F values of a text against a reference.

    >>> word_set_rouge("the left lung", "left lung").rouge_1
    0.79999999520000...

    Source: rouge 1.0.1, rouge.py and rouge_score.py (`Rouge().get_scores` with its defaults).
    """
    said, wanted = _sentences(text), _sentences(reference)
    if not said or not wanted:
        raise ValueError("ROUGE needs a text and a reference that are not empty and more than full stops")
    return RougeScores(_of_ngrams(said, wanted, 1), _of_ngrams(said, wanted, 2), _of_subsequences(said, wanted))


def _sentences(text: str) -> list[list[str]]:
    return [" ".join(sentence.split()).split(" ") for sentence in text.split(".") if sentence]


def _of_ngrams(said: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], order: int) -> float:
    one, other = _ngram_set(said, order), _ngram_set(wanted, order)
    return _f_value(len(one & other), len(one), len(other))


def _ngram_set(sentences: Sequence[Sequence[str]], order: int) -> set[tuple[str, ...]]:
    words = [word for sentence in sentences for word in sentence]
    return {tuple(words[start : start + order]) for start in range(len(words) - order + 1)}


def _of_subsequences(said: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    common = {word for reference in wanted for sentence in said for word in _common_subsequence(reference, sentence)}
    return _f_value(len(common), len(_ngram_set(said, 1)), len(_ngram_set(wanted, 1)))


def _f_value(common: int, said: int, wanted: int) -> float:
    precision = common / said if said else 0.0
    recall = common / wanted if wanted else 0.0
    return 2.0 * (precision * recall / (precision + recall + _NEVER_ZERO))


def _common_subsequence(reference: Sequence[str], sentence: Sequence[str]) -> list[str]:
    lengths = [[0] * (len(sentence) + 1) for _ in range(len(reference) + 1)]
    for row, word in enumerate(reference, start=1):
        for column, other in enumerate(sentence, start=1):
            lengths[row][column] = (
                lengths[row - 1][column - 1] + 1
                if word == other
                else max(lengths[row - 1][column], lengths[row][column - 1])
            )
    found, row, column = list[str](), len(reference), len(sentence)
    while row and column:
        if reference[row - 1] == sentence[column - 1]:
            found.append(reference[row - 1])
            row, column = row - 1, column - 1
        elif lengths[row - 1][column] > lengths[row][column - 1]:
            row -= 1
        else:
            column -= 1
    return found
