"""BLEU and ROUGE of two texts as MedEvalKit computes them: nltk's sentence BLEU and the ROUGE of the package `rouge`.

Both packages are described here by their behaviour, because they are no dependencies of medtune:

- Sentence BLEU has no smoothing. A reply without one common 4-gram has a BLEU-4 of about 1e-78 and not of 0.
- ROUGE-1 and ROUGE-2 count distinct words and pairs of words, so that repetitions cost nothing.
- ROUGE-L counts the distinct words of all longest common subsequences between sentences, which end at full stops.
- The constant in the denominator of ROUGE makes equal texts reach 0.999999995 and not 1.

Source: nltk 3.10.4, nltk.translate.bleu_score; rouge 1.0.1, rouge_score.py.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_TINY = 1e-8
"""The constant in the denominator of the package's F. Source: rouge 1.0.1, rouge_score.py (f_r_p_rouge_n)."""


class Rouge(NamedTuple):
    """The F values of ROUGE-1, ROUGE-2 and ROUGE-L of one text, 0 to just under 1."""

    one: float
    two: float
    longest: float


def sentence_bleu(truth: Sequence[str], reply: Sequence[str], *, order: int) -> float:
    """Returns BLEU of one reply with equal weights of the 1- to `order`-grams, 0 to 1, without smoothing.

    Example:
        >>> round(sentence_bleu("the liver is normal".split(), "the liver is large".split(), order=2), 6)
        0.707107

    Source:
        Papineni et al. 2002, doi:10.3115/1073083.1073135; nltk 3.10.4, nltk.translate.bleu_score.
    """
    shares = []
    for length in range(1, order + 1):
        said, true = _ngrams(reply, length), _ngrams(truth, length)
        found = sum((Counter(said) & Counter(true)).values())
        if length == 1 and not found:
            return 0.0
        shares.append(found / max(1, len(said)) if found else sys.float_info.min)
    brevity = 1.0 if len(reply) > len(truth) else math.exp(1 - len(truth) / len(reply))
    return brevity * math.exp(math.fsum(math.log(share) / order for share in shares))


def rouge(truth: str, reply: str) -> Rouge:
    """Returns ROUGE-1, ROUGE-2 and ROUGE-L of one reply, whose case is kept.

    Raises:
        ValueError: A text is empty or consists of full stops alone, where the package stops as well.

    Example:
        >>> [round(value, 6) for value in rouge("The liver is normal.", "The liver is large.")]
        [0.75, 0.666667, 0.75]

    Source:
        rouge 1.0.1, rouge_score.py; Lin 2004, https://aclanthology.org/W04-1013.
    """
    true_sentences, said_sentences = _sentences(truth), _sentences(reply)
    if not true_sentences or not said_sentences:
        raise ValueError("wanted two texts with words, got one without any")
    true, said = _words(true_sentences), _words(said_sentences)
    common = {
        word
        for one in true_sentences
        for other in said_sentences
        for word in _common_subsequence(one.split(" "), other.split(" "))
    }
    return Rouge(
        *(
            _f(len({*_ngrams(true, n)} & {*_ngrams(said, n)}), len({*_ngrams(true, n)}), len({*_ngrams(said, n)}))
            for n in (1, 2)
        ),
        _f(len(common), len({*true}), len({*said})),
    )


def _ngrams(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def _sentences(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(".") if part]


def _words(sentences: Sequence[str]) -> list[str]:
    return [word for sentence in sentences for word in sentence.split(" ")]


def _f(common: int, true: int, said: int) -> float:
    precision, recall = common / said if said else 0.0, common / true if true else 0.0
    return 2.0 * ((precision * recall) / (precision + recall + _TINY))


def _common_subsequence(true: Sequence[str], said: Sequence[str]) -> list[str]:
    """Returns a longest common subsequence, and of several the one that the package finds: it is read from the end."""
    longest = [[0] * (len(said) + 1) for _ in range(len(true) + 1)]
    for row, word in enumerate(true, start=1):
        for column, other in enumerate(said, start=1):
            longest[row][column] = (
                longest[row - 1][column - 1] + 1
                if word == other
                else max(longest[row - 1][column], longest[row][column - 1])
            )
    row, column, found = len(true), len(said), []
    while row and column:
        if true[row - 1] == said[column - 1]:
            found.append(true[row - 1])
            row, column = row - 1, column - 1
        elif longest[row - 1][column] > longest[row][column - 1]:
            row -= 1
        else:
            column -= 1
    return found
