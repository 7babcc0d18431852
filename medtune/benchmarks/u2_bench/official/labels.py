"""Reads classifications as the official scripts do, strict (evalkit) or lenient (post-processing), bugs included.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/cla_eval.py.
    lenient: gurenolun/Dolphin-ai-bench, new_results/qwen_cla_eval.py.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medtune.benchmarks.u2_bench.official.errors import OfficialFailureError

Mode = Literal["strict", "lenient"]
MISSING = "nan"
Label = str | int

# Cells that pandas >= 2.0 reads as missing. With "None" among them, one class of set 53 can never be right.
_MISSING_CELLS = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One row as an official script sees it.

    Attributes:
        truth: The label that the truth cell becomes; "nan" for a missing cell.
        label: The label that the reply becomes; None where the row leaves numerator and denominator.
    """

    truth: Label
    label: Label | None


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of one data set, each 0 to 1; precision, recall and F1 are macro over truth and predicted labels."""

    parser_rate: float
    acc: float
    precision: float
    recall: float
    f1: float
    n_rows: int


def read_row(cell: str | int | None, reply: str | None, *, dataset: str, mode: Mode) -> Reading:
    """Returns how a script reads a truth cell and a reply.

    Raises:
        OfficialFailureError: The script would raise on this reply, and lose the data set.
    """
    if mode == "strict" and not reply:
        raise OfficialFailureError("KeyError", "an empty reply makes the script look for another column")
    if reply is None:
        raise OfficialFailureError("AttributeError", "a missing reply is no string")
    said = reply if mode == "strict" else reply.strip().strip("'\"")
    if isinstance(cell, int):
        return Reading(cell, _whole(said))
    if cell is None or cell in _MISSING_CELLS:
        # A missing number is compared with the reply as it stands; only one reader makes a text of it first.
        is_text = mode == "lenient" and dataset == "anatomy"
        return Reading(MISSING, said.lower() if is_text else said)
    truth = _strict_truth(cell) if mode == "strict" else _lenient_truth(cell, dataset)
    return Reading(truth, said.lower())


def class_scores(readings: Sequence[Reading]) -> ClassScores:
    """Returns the scores of one data set.

    Rows without a label are left out of everything but `parser_rate`; where no row has one, every score is 0.

    Raises:
        ValueError: There are no rows.

    Example:
        >>> scores = class_scores([Reading("benign", "benign"), Reading("normal", "perhaps normal")])
        >>> scores.acc, round(scores.f1, 4)
        (0.5, 0.3333)
    """
    if not readings:
        raise ValueError("scores of a data set need at least one row, got none")
    kept = [(each.truth, each.label) for each in readings if each.label is not None]
    rate = len(kept) / len(readings)
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
    """Returns the organ of a dict-like cell, in small letters; only the lenient script unpacks those."""
    try:
        found = json.loads(cell.replace("'", '"'))
    except json.JSONDecodeError:
        named = re.search(r'"Anatomy":\s*"([^"]+)"', cell)
        return (named[1] if named else cell).lower()
    organ = found.get("Anatomy", cell) if isinstance(found, dict) else cell
    return str(organ).lower()
