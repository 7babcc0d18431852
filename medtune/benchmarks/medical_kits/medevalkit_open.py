"""MedEvalKit's rule for open questions: equality, BLEU, ROUGE and overlaps of words, under the names that it prints.

The kit returns (F1, precision, recall) and reads them as (precision, recall, F1). `OpenScores` has the printed names.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (judge_open_end_vqa, calculate_f1, bleu, rouge);
blackkiring/MedEvalKit@9c443c2 for replies on which the former stops.
"""

import functools
from typing import NamedTuple

from medtune.benchmarks.medical_kits.medevalkit_reply import answer_part
from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu
from medtune.benchmarks.medical_kits.word_set_rouge import word_set_rouge


class OpenScores(NamedTuple):
    """The kit's numbers of one reply to an open question, 0 to 1, by the names that it prints.

    Attributes:
        em: 1 if the reply equals the true answer, else 0.
        bleu1: BLEU of single words.
        bleu2: BLEU up to pairs of words.
        bleu3: BLEU up to three words.
        bleu4: BLEU up to four words.
        rouge1: ROUGE of words.
        rouge2: ROUGE of pairs of words.
        rougel: ROUGE of longest common subsequences.
        precision: In truth F1.
        recall: In truth the precision.
        f1: In truth the recall.
    """

    em: float
    bleu1: float
    bleu2: float
    bleu3: float
    bleu4: float
    rouge1: float
    rouge2: float
    rougel: float
    precision: float
    recall: float
    f1: float


NOTHING = OpenScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""The numbers of a reply on which the kit stops, as its fork blackkiring counts an empty one."""


def open_scores(truth: str, reply: str) -> OpenScores:
    """Returns the kit's numbers of one reply.

    Example:
        >>> found = open_scores("Left lung", "The left lung.")
        >>> found.em, round(found.precision, 3), round(found.recall, 3), round(found.f1, 3)
        (0.0, 0.4, 0.333, 0.5)
    """
    wanted, said = truth.lower(), answer_part(reply)
    rouge = word_set_rouge(said.lower(), wanted)
    bleu = functools.partial(_bleu, said, wanted)
    return OpenScores(float(said == wanted), bleu(1), bleu(2), bleu(3), bleu(4), *rouge, *_overlap(said, wanted))


def _bleu(said: str, wanted: str, order: int) -> float:
    return sentence_bleu(_tokens(said), _tokens(wanted), [1 / order] * order)


def _tokens(text: str) -> list[str]:
    return text.lower().replace(".", " .").split(" ")


class _Overlap(NamedTuple):
    f1: float
    precision: float
    recall: float


def _overlap(said: str, wanted: str) -> _Overlap:
    one, other = set(said.lower().split()), set(wanted.lower().split())
    if not one or not other:
        raise TypeError("MedEvalKit stops at a reply of blanks alone")
    common = len(one & other)
    if not common:
        return _Overlap(0.0, 0.0, 0.0)
    precision, recall = common / len(one), common / len(other)
    return _Overlap(2 * precision * recall / (precision + recall), precision, recall)
