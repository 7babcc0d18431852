r"""MedEvalKit's totals over VQA-RAD, SLAKE and PathVQA, without a judge and with one.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/VQA_RAD/VQA_RAD.py, utils/SLAKE/SLAKE.py and
utils/PATH_VQA/PATH_VQA.py (cal_metrics); its forks blackkiring@9c443c2, chenz53@9f20061 and ceilingFan456@b4c80aa.

MedEvalKit's rules for closed questions: yes or no as substrings, and equality for everything else.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (judge_judgement, judge_close_end_vqa).

MedEvalKit's rule for open questions: equality, BLEU, ROUGE and overlaps of words, under the names that it prints.

The kit returns (F1, precision, recall) and reads them as (precision, recall, F1). `KitScores` has the printed names.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (judge_open_end_vqa, calculate_f1, bleu, rouge);
blackkiring/MedEvalKit@9c443c2 for replies on which the former stops.

Finds the answer in a reply as MedEvalKit does: \boxed{}, <answer> tags, and what follows the last answer phrase.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/utils.py (parse_response, extract) and the `cal_metrics` of its
sets; mathruler 0.1.0, grader.py (extract_boxed_content).
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.benchmarks.medical_kits.sentence_bleu import sentence_bleu, word_set_rouge

_BOX = "\\boxed{"
_NO_BOX = "None"
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.S)
_PHRASES = (
    "**answer**:", "**answer**", "*answer*:", "**answer:**", "answer is", "answer:", "答案:", "final answer",
    "final answer is",
)  # fmt: skip
"""The phrases in the order in which the kit cuts the reply at them; some can never occur once an earlier one was cut.

Source: MedEvalKit@9b12e3b, utils/utils.py (parse_response).
"""

YES_NO = ("yes", "no")


def answer_part(reply: str) -> str:
    r"""Returns the part of a reply that the kit compares, in lower case; a blank after the phrase stays in front.

    A reply with the word "boxed" but without a closed \boxed{} becomes the text "None", whatever it says.

    >>> answer_part("The Answer is Liver."), answer_part(r"\boxed{Liver}"), answer_part("It is boxed: liver")
    (' liver.', 'liver', 'None')
    """
    said = reply.lower()
    if "boxed" in said:
        said = boxed(said)
    elif "<answer>" in said:
        said = tagged(said)
    for phrase in _PHRASES:
        # Not rpartition: of two phrases that share their stars, the first counts.
        said = said.split(phrase)[-1]
    return said


def handed_over(reply: str) -> str:
    """Returns the part of a reply that the kit's sets hand on: what is in the box or in the tags, or all of it."""
    found = boxed(reply)
    if found != _NO_BOX:
        return found
    return tagged(reply) if "<answer>" in reply else reply


def boxed(text: str) -> str:
    r"""Returns the content of the last \boxed{}, or the word "None" if there is none or its brace is not closed."""
    if _BOX not in text:
        return _NO_BOX
    depth, content = 0, text.rpartition(_BOX)[2]
    for place, character in enumerate(content):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return content[:place].strip()
    return _NO_BOX


def tagged(text: str) -> str:
    """Returns the texts inside of all <answer> tags, joined by blanks; the whole text if they hold nothing."""
    return "".join(f"{part} " for part in _TAGGED.findall(text)).strip() or text


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


NOTHING = KitScores(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""The numbers of a reply on which the kit stops, as its fork blackkiring counts an empty one."""


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


class SetRow(NamedTuple):
    """A true answer as released, a reply, and the type that SLAKE states ("OPEN", "CLOSED")."""

    truth: str
    reply: str
    answer_type: str = ""


class Counted(NamedTuple):
    """One counted row: whether it was taken as closed, whether it is right, its open scores, and whether it stops."""

    is_closed: bool
    is_right: bool
    scores: KitScores | None = None
    stops: bool = False


def counted_by_words(row: SetRow) -> Counted:
    """Returns how VQA-RAD and PathVQA count a row: closed is what has the answer yes or no; blanks at the ends go."""
    truth, said = row.truth.lower().strip(), handed_over(row.reply).lower().strip()
    if truth in YES_NO:
        return Counted(is_closed=True, is_right=is_right_yes_no(truth, said))
    return _open(truth, said)


def counted_by_type(row: SetRow) -> Counted:
    """Returns how SLAKE counts a row: by its type, blanks stay, and only "yes" in small letters is yes or no."""
    said = handed_over(row.reply)
    if row.answer_type == "OPEN":
        return _open(row.truth, said)
    rule = is_right_yes_no if row.truth in YES_NO else is_right_word
    return Counted(is_closed=True, is_right=rule(row.truth, said))


CountRow = Callable[[SetRow], Counted]


def _open(truth: str, said: str) -> Counted:
    try:
        scores = open_scores(truth, said)
    except (ValueError, TypeError):
        return Counted(is_closed=False, is_right=False, scores=NOTHING, stops=True)
    return Counted(is_closed=False, is_right=bool(scores.em), scores=scores)


def printed_totals(rows: Sequence[Counted]) -> Mapping[str, Mapping[str, float]]:
    """Returns what the kit prints without a judge: "total metrics", "open" and "close".

    "acc" of the open questions is divided by their number twice, as in the kit; right / total is the true share. A part
    without questions, at which the kit stops with ZeroDivisionError, has no "acc".
    """
    parts = {
        "total metrics": list(rows),
        "open": [row for row in rows if not row.is_closed],
        "close": [row for row in rows if row.is_closed],
    }
    totals: dict[str, dict[str, float]] = {name: _shares(part) for name, part in parts.items()}
    free = totals["open"]
    if "acc" in free:
        free["acc"] /= free["total"]
        scored = [row.scores for row in parts["open"] if row.scores]
        free |= {name: sum(getattr(scores, name) for scores in scored) / free["total"] for name in KitScores._fields}
    return totals


def _shares(rows: Sequence[Counted]) -> dict[str, float]:
    right = sum(row.is_right for row in rows)
    return {"total": len(rows), "right": right} | ({"acc": right / len(rows)} if rows else {})


@dataclass(frozen=True, slots=True)
class JudgeCounting:
    """How a copy of the kit adds a judge's verdicts to its own counts."""

    keeps_closed: bool  # Whether the closed hits of the rule without a judge stay counted.
    judges_closed: bool = False  # Whether closed rows are judged (again).
    # Whether the total of the rule without a judge stays counted, so that hits are added to it.
    keeps_total: bool = False


_SOUND = JudgeCounting(keeps_closed=True)
_LOSES_CLOSED = JudgeCounting(keeps_closed=False)
JUDGE_COUNTINGS: Mapping[str, Mapping[str, JudgeCounting | None]] = {
    "damo": {
        "vqa_rad": _SOUND,
        "path_vqa": _LOSES_CLOSED,
        "slake": JudgeCounting(keeps_closed=True, judges_closed=True),
    },
    "blackkiring": {
        "vqa_rad": _SOUND,
        "path_vqa": _SOUND,
        "slake": JudgeCounting(keeps_closed=False, judges_closed=True),
    },
    "chenz53": {
        "vqa_rad": _SOUND,
        "path_vqa": _LOSES_CLOSED,
        "slake": JudgeCounting(keeps_closed=True, judges_closed=True, keeps_total=True),
    },
    "ceilingFan456": {"vqa_rad": _LOSES_CLOSED, "path_vqa": _LOSES_CLOSED, "slake": None},
}
"""How the kit and three forks count with a judge, by copy and set; None where the code stops with TypeError.

Source: the lines after `use_llm_judge` in the files of the module's source.
"""


class JudgedTotals(NamedTuple):
    """The numbers of right answers that a copy of the kit prints with a judge; they may exceed the questions."""

    total_right: int
    open_right: int
    close_right: int


def judged_totals(rows: Sequence[Counted], counting: JudgeCounting, verdicts: Sequence[bool]) -> JudgedTotals:
    """Returns the totals that a copy of the kit prints for a judge's verdict on every row."""
    open_right = sum(verdict for row, verdict in zip(rows, verdicts, strict=True) if not row.is_closed)
    judged = sum(verdict for row, verdict in zip(rows, verdicts, strict=True) if row.is_closed)
    exact_closed = sum(row.is_right for row in rows if row.is_closed)
    kept = exact_closed if counting.keeps_closed else 0
    added = judged if counting.judges_closed else 0
    before = sum(row.is_right for row in rows) if counting.keeps_total else kept
    return JudgedTotals(before + open_right + added, open_right, kept + added)
