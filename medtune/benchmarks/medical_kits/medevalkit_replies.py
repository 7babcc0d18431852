"""MedEvalKit's scores of one reply: yes or no as substrings, equality for other closed questions, and overlaps.

For open questions the kit returns (F1, precision, recall) and reads them as (precision, recall, F1). `KitScores` has
the printed names.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (judge_judgement, judge_close_end_vqa,
judge_open_end_vqa, calculate_f1, bleu, rouge); blackkiring/MedEvalKit@9c443c2 for replies on which the former stops.
"""

import functools
from typing import NamedTuple

from medtune.benchmarks.medical_kits.medevalkit_answer import answer_part
from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu, word_set_rouge

YES_NO = ("yes", "no")


def is_right_yes_no(truth: str, reply: str) -> bool:
    """Returns whether the kit counts a reply to a yes/no question as right.

    Exactly one of "yes" and "no" has to stand somewhere in the reply, even inside of another word ("normal", "know").

    >>> [is_right_yes_no("no", reply) for reply in ("No.", "abnormal", "I do not know", "yes and no", "false")]
    [True, True, True, False, False]
    """
    said = _answer_in_one_line(reply)
    return ("yes" in said) != ("no" in said) and truth.lower() in said


def is_right_word(truth: str, reply: str) -> bool:
    """Returns whether the kit counts a reply to another closed question as right: it has to equal the truth.

    Full stops and line breaks are ignored, blanks at the ends are not.

    >>> [is_right_word("Yes", reply) for reply in ("yes.", "Yes, there is.", "The answer is yes")]
    [True, False, False]
    """
    return _answer_in_one_line(reply) == truth.lower()


def _answer_in_one_line(reply: str) -> str:
    return answer_part(reply).replace("\n", "").replace(".", "")


class KitScores(NamedTuple):
    """The kit's numbers of one reply to an open question, 0 to 1, by the names that it prints."""

    em: float  # 1 if the reply equals the true answer, else 0.
    bleu1: float  # BLEU of single words.
    bleu2: float  # BLEU up to pairs of words.
    bleu3: float  # BLEU up to three words.
    bleu4: float  # BLEU up to four words.
    rouge1: float  # ROUGE of words.
    rouge2: float  # ROUGE of pairs of words.
    rougel: float  # ROUGE of longest common subsequences.
    precision: float  # In truth F1.
    recall: float  # In truth the precision.
    f1: float  # In truth the recall.


def open_scores(truth: str, reply: str) -> KitScores:
    """Returns the kit's numbers of one reply.

    >>> found = open_scores("Left lung", "The left lung.")
    >>> found.em, round(found.precision, 3), round(found.recall, 3), round(found.f1, 3)
    (0.0, 0.4, 0.333, 0.5)
    """
    wanted, said = truth.lower(), answer_part(reply)
    rouge = word_set_rouge(said.lower(), wanted)
    bleu = functools.partial(_bleu, said, wanted)
    return KitScores(float(said == wanted), bleu(1), bleu(2), bleu(3), bleu(4), *rouge, *_overlap(said, wanted))


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


NOTHING = KitScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""The numbers of a reply on which the kit stops, as its fork blackkiring counts an empty one."""
