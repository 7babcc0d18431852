"""Reads classifications as the official scripts do, strict (evalkit) or lenient (post-processing), bugs included.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/cla_eval.py.
    lenient: gurenolun/Dolphin-ai-bench, new_results/qwen_cla_eval.py.

Reads replies about the place of a box or keypoint, in nine cells, as the official scripts do.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/seg_eval_v1.1.py. lenient: gurenolun/Dolphin-ai-bench,
    new_results/qwen_seg_eval.py.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.data.media.masks import LOCATIONS


class OfficialFailureError(Exception):
    """Signals that the official script would fail here, so that the data set would be missing in the task's mean.

    Attributes:
        exception: The name of the exception that the script would raise.
    """

    def __init__(self, exception: str, why: str) -> None:
        super().__init__(f"{exception}: {why}")
        self.exception = exception


Mode = Literal["strict", "lenient"]
MISSING = "nan"
Label = str | int

# The cells that pandas 2.0 and later read as missing. "None" is among them, so one class of set 53 can never be right.
_MISSING_CELLS = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One row as an official script sees it.

    Attributes:
        truth: The label that the script reads from the cell with the true answer; "nan" for a missing cell.
        label: The label that the script reads from the reply; None if it leaves out the row.
    """

    truth: Label
    label: Label | None


@dataclass(frozen=True, slots=True)
class ClassScores:
    """The scores of one data set, each from 0 to 1.

    Attributes:
        parser_rate: The share of rows with a label.
        acc: The accuracy.
        precision: The mean precision over all labels that are true or predicted.
        recall: The mean recall over the same labels.
        f1: The mean F1 over the same labels.
        n_rows: The number of rows.
    """

    parser_rate: float
    acc: float
    precision: float
    recall: float
    f1: float
    n_rows: int


def read_row(cell: str | int | None, reply: str | None, *, dataset: str, mode: Mode) -> Reading:
    """Returns how an official script reads one row.

    Args:
        cell: The cell with the true answer; None for a missing cell.
        reply: The model's reply; None if there is none.
        dataset: The id of the data set.
        mode: Which of the official scripts is meant.

    Raises:
        OfficialFailureError: The script would fail on this reply, so that the whole data set is lost.
    """
    if mode == "strict" and not reply:
        raise OfficialFailureError("KeyError", "an empty reply makes the script look for another column")
    if reply is None:
        raise OfficialFailureError("AttributeError", "a missing reply is no string")
    said = reply if mode == "strict" else reply.strip().strip("'\"")
    if isinstance(cell, int):
        return Reading(cell, _whole(said))
    if cell is None or cell in _MISSING_CELLS:
        # The scripts compare a missing number with the reply directly; only one of them turns it into a text first.
        is_text = mode == "lenient" and dataset == "anatomy"
        return Reading(MISSING, said.lower() if is_text else said)
    truth = _strict_truth(cell) if mode == "strict" else _lenient_truth(cell, dataset)
    return Reading(truth, said.lower())


def class_scores(readings: Sequence[Reading], *, mode: Mode) -> ClassScores:
    """Returns the scores of one data set.

    Rows without a label are left out of all scores except `parser_rate`. If no row has a label, every score of the
    lenient script is 0, and the strict script divides by zero.

    Raises:
        OfficialFailureError: The script fails, so that the whole data set is lost: in strict mode because no row has a
            label, or in both because every true answer is missing.

    Example:
        >>> scores = class_scores([Reading("benign", "benign"), Reading("normal", "perhaps normal")], mode="strict")
        >>> scores.acc, round(scores.f1, 4)
        (0.5, 0.3333)
    """
    if not readings:
        raise ValueError("scores of a data set need at least one row, got none")
    kept = [(each.truth, each.label) for each in readings if each.label is not None]
    rate = len(kept) / len(readings)
    if kept and all(truth == MISSING for truth, _ in kept):
        raise OfficialFailureError("ValueError", "every true answer is a cell that pandas reads as missing")
    if not kept and mode == "strict":
        raise OfficialFailureError("ZeroDivisionError", "no reply could be read as a whole number")
    if not kept:
        return ClassScores(rate, 0.0, 0.0, 0.0, 0.0, len(readings))
    true, said = Counter(truth for truth, _ in kept), Counter(label for _, label in kept)
    hits = Counter(label for truth, label in kept if label == truth)
    labels = sorted(true.keys() | said.keys(), key=str)
    return ClassScores(
        parser_rate=rate,
        acc=sum(hits.values()) / len(kept),
        precision=math.fsum(hits[x] / said[x] for x in labels if said[x]) / len(labels),
        recall=math.fsum(hits[x] / true[x] for x in labels if true[x]) / len(labels),
        f1=math.fsum(2 * hits[x] / (true[x] + said[x]) for x in labels) / len(labels),
        n_rows=len(readings),
    )


def _whole(said: str) -> int | None:
    try:
        return int(said)
    except ValueError:
        return None


def _strict_truth(cell: str) -> str:
    return _without_brackets(cell).replace("'", "").lower()


def _lenient_truth(cell: str, dataset: str) -> str:
    unpacked = _anatomy(cell) if dataset == "anatomy" else cell
    return _without_brackets(unpacked).lower().strip().strip("'\"")


def _without_brackets(cell: str) -> str:
    return cell.replace("[", "").replace("]", "") if "[" in cell else cell


def _anatomy(cell: str) -> str:
    try:
        found = json.loads(cell.replace("'", '"'))
    except json.JSONDecodeError:
        named = re.search(r'"Anatomy":\s*"([^"]+)"', cell)
        return (named[1] if named else cell).lower()
    organ = found.get("Anatomy", cell) if isinstance(found, dict) else cell
    return str(organ).lower()


# These are tried if the reply contains none of LOCATIONS. "center" is one of them, so no pair here contains it.
_PAIRS = (
    ("upper", "left"), ("upper", "right"), ("middle", "left"), ("central", ""), ("middle", "right"), ("lower", "left"),
    ("lower", "right"), ("not", "visible"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """A reply as an official script reads it.

    Attributes:
        label: The position; None if the script finds none. The lenient script keeps such a reply and counts it as
            wrong.
        is_dropped: Whether the script leaves out the row.
    """

    label: str | None
    is_dropped: bool = False


def read_position(reply: str | None, *, mode: Mode) -> Position:
    """Returns how an official script reads a reply.

    The lenient script takes the first of `LOCATIONS` that the reply contains. Because "center" comes before "lower
    center", the latter can never be read.
    """
    if mode == "strict":
        return Position(None, is_dropped=True) if reply is None else Position(reply.lower())
    said = (reply or "").strip().lower()
    if said == "failed":
        return Position(None, is_dropped=True)
    named = [location for location in LOCATIONS if location in said]
    if named:
        return Position(named[0])
    pairs = [pair for pair in _PAIRS if pair[0] in said and pair[1] in said]
    return Position(("center" if pairs[0] == ("central", "") else " ".join(pairs[0])) if pairs else None)


def position_accuracy(truths: Sequence[str], positions: Sequence[Position]) -> float:
    """Returns the share of right rows among those that are not dropped.

    Raises:
        OfficialFailureError: All rows are dropped, so that the script reports no result for the data set.
    """
    kept = [
        (truth, position.label) for truth, position in zip(truths, positions, strict=True) if not position.is_dropped
    ]
    if not kept:
        raise OfficialFailureError("no valid samples", "every reply was dropped")
    return sum(truth == label for truth, label in kept) / len(kept)
