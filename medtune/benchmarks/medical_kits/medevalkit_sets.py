"""MedEvalKit's totals over VQA-RAD, SLAKE and PathVQA, without a judge and with one.

Source: alibaba-damo-academy/MedEvalKit@9b12e3b, utils/VQA_RAD/VQA_RAD.py, utils/SLAKE/SLAKE.py and
utils/PATH_VQA/PATH_VQA.py (cal_metrics); its forks blackkiring@9c443c2, chenz53@9f20061 and ceilingFan456@b4c80aa.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.benchmarks.medical_kits.medevalkit_answer import handed_over
from medtune.benchmarks.medical_kits.medevalkit_replies import (
    NOTHING,
    YES_NO,
    KitScores,
    is_right_word,
    is_right_yes_no,
    open_scores,
)


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
