"""Reads and scores classes, places and values as the official scripts do, strict or lenient, bugs included.

Source: strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func (cla_eval.py, seg_eval_v1.1.py, measure_eval_v1.2.py).
lenient, the post-processing: gurenolun/Dolphin-ai-bench, new_results (qwen_cla_eval.py, qwen_seg_eval.py,
qwen_measure_eval.py); the pre-pass of values: its scripts/extract_measurement_values_improved.py.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medtune.benchmarks.u2_bench.tasks_and_sets import RANGES, TOLERANCE, Range
from medtune.data.json_text import json_value
from medtune.data.media.masks import LOCATIONS

Mode = Literal["strict", "lenient"]
MISSING = "nan"
Label = str | int

# The cells that pandas 2.0 and later read as missing. "None" is among them, so one class of set 53 can never be right.
_MISSING_CELLS = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)

# These are tried if the reply contains none of LOCATIONS. "center" is one of them, so no pair here contains it.
_PAIRS = (
    ("upper", "left"), ("upper", "right"), ("middle", "left"), ("central", ""), ("middle", "right"), ("lower", "left"),
    ("lower", "right"), ("not", "visible"),
)  # fmt: skip
_NUMBER = r"(\d+\.?\d*)"
_SAID = r"(?:of |is |approximately |about |around )?"
# The first pattern that matches anywhere decides. Patterns of the script that an earlier one covers are left out.
_PATTERNS: Mapping[str, tuple[str, ...]] = {
    "57": (
        r"around (\d+)", r"value of (\d+)", r"indicative of (\d+)", r"fat value (?:about )?(\d+)",
        r"fat content (?:of |about )?(\d+)", r"fat percentage (?:of |about )?(\d+)", r"(\d+)%", r"(\d+)",
    ),
    "50": (
        r"imt (?:of |is |value |measurement |measures |approximately |about |around )?" + _NUMBER,
        _NUMBER + r"\s*(?:mm|millimeter)",
        _NUMBER,
    ),
}  # fmt: skip
_OTHER_PATTERNS = (
    _NUMBER + r"\s*(?:mm|cm|ml|g|kg|%)",
    r"(?:value|measurement|result|reading) " + _SAID + _NUMBER,
    r"(\d+\.\d+)",
    r"(\d+)",
)
NO_NUMBER = "null"


class OfficialFailureError(Exception):
    """Signals that the official script would fail here, so that the data set would be missing in the task's mean.

    Attributes:
        exception: The name of the exception that the script would raise.
    """

    def __init__(self, exception: str, why: str) -> None:
        super().__init__(f"{exception}: {why}")
        self.exception = exception


@dataclass(frozen=True, slots=True)
class Reading:
    """One row as an official script sees it."""

    truth: Label  # The label that the script reads from the cell with the true answer; "nan" for a missing cell.
    label: Label | None  # The label that the script reads from the reply; None if it leaves out the row.


@dataclass(frozen=True, slots=True)
class ClassScores:
    """The scores of one data set, each from 0 to 1."""

    parser_rate: float  # The share of rows with a label.
    acc: float
    precision: float  # The mean precision over all labels that are true or predicted.
    recall: float  # The mean recall over the same labels.
    f1: float  # The mean F1 over the same labels.
    n_rows: int


def read_row(cell: str | int | None, reply: str | None, *, dataset: str, mode: Mode) -> Reading:
    """Returns how an official script reads one row; None is a missing cell or reply."""
    if mode == "strict" and not reply:
        raise OfficialFailureError("KeyError", "an empty reply makes the script look for another column")
    if reply is None:
        raise OfficialFailureError("AttributeError", "a missing reply is no string")
    said = reply if mode == "strict" else reply.strip().strip("'\"")
    if isinstance(cell, int):
        return Reading(cell, _integer_or_none(said))
    if cell is None or cell in _MISSING_CELLS:
        # The scripts compare a missing number with the reply directly; only one of them turns it into a text first.
        is_text = mode == "lenient" and dataset == "anatomy"
        return Reading(MISSING, said.lower() if is_text else said)
    truth = _without_brackets(cell).replace("'", "").lower() if mode == "strict" else _lenient_truth(cell, dataset)
    return Reading(truth, said.lower())


def class_scores(readings: Sequence[Reading], *, mode: Mode) -> ClassScores:
    """Returns the scores of one data set.

    Rows without a label are left out of all scores except `parser_rate`. If no row has a label, every score of the
    lenient script is 0, and the strict script divides by zero.

    Raises:
        OfficialFailureError: The script fails, so that the whole data set is lost: in strict mode because no row has a
            label, or in both because every true answer is missing.

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


def _integer_or_none(said: str) -> int | None:
    try:
        return int(said)
    except ValueError:
        return None


def _lenient_truth(cell: str, dataset: str) -> str:
    unpacked = _anatomy(cell) if dataset == "anatomy" else cell
    return _without_brackets(unpacked).lower().strip().strip("'\"")


def _without_brackets(cell: str) -> str:
    return cell.replace("[", "").replace("]", "") if "[" in cell else cell


def _anatomy(cell: str) -> str:
    try:
        found = json_value(cell.replace("'", '"'))
    except json.JSONDecodeError:
        named = re.search(r'"Anatomy":\s*"([^"]+)"', cell)
        return (named[1] if named else cell).lower()
    organ = found.get("Anatomy", cell) if isinstance(found, dict) else cell
    return str(organ).lower()


@dataclass(frozen=True, slots=True)
class Position:
    """A reply as an official script reads it."""

    # The position; None if the script finds none. The lenient script keeps such a reply and counts it as wrong.
    label: str | None
    is_dropped: bool = False  # Whether the script leaves out the row.


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


@dataclass(frozen=True, slots=True)
class Value:
    """One row as a script sees it."""

    truth: float | None = None  # The true value; None if the row is not used.
    predicted: float | None = None  # The value in the reply; None if the row is not used.
    # Whether the row is counted as failed, because its reply gives no number. A row that is neither used nor failed has
    # no true value; the script skips it without counting it.
    is_failed: bool = False

    @property
    def is_used(self) -> bool:
        return self.truth is not None


@dataclass(frozen=True, slots=True)
class ValueScores:
    """The scores of one data set; errors are in units of the range of values, and nan if no row is used."""

    mae: float  # The mean absolute error.
    rmse: float  # The root mean square error.
    std: float  # The population standard deviation of the signed errors.
    pct_within_tolerance: float  # The percentage of rows whose error is within the tolerance, 0 to 100.
    failed_items: int  # The number of rows whose reply gives no number.


def predicted_value(reply: str | None, *, mode: Mode) -> float | None:
    """Returns the number that a script reads from a reply, or None if it reads none.

    The strict script accepts only a reply that is a number as a whole. In other replies, the lenient script takes the
    first decimal number, or else the first whole number; it loses the sign and what follows a thousands separator.

    >>> [predicted_value(reply, mode="lenient") for reply in ("-3", "50 to 60.5", "1,200", "none")]
    [-3.0, 60.5, 1.0, None]
    """
    said = reply if reply is None or mode == "strict" else reply.strip()
    if said is None or (mode == "lenient" and said.lower() == NO_NUMBER):
        return None
    try:
        return float(said)
    except ValueError:
        pass
    if mode == "strict":
        return None
    found = re.search(r"\d+\.\d+", said) or re.search(r"\d+", said)
    return float(found[0]) if found else None


def extract_number(reply: str | None, *, dataset: str) -> str:
    """Returns the number that the official pre-pass finds, as it is written in the reply; "null" if it finds none.

    >>> extract_number("image 2 suggests 143.1", dataset="50"), extract_number("about 61 %", dataset="18")
    ('2', '61')
    """
    said = (reply or "").lower().strip()
    if re.fullmatch(r"\d+\.?\d*", said):
        return said
    matches = (re.search(pattern, said) for pattern in _PATTERNS.get(dataset, _OTHER_PATTERNS))
    return next((found[1] for found in matches if found), NO_NUMBER)


def scaled(value: float, span: Range) -> float:
    """Returns the value on a scale where its range is from 0 to 1, without clipping."""
    return (value - span.low) / (span.high - span.low)


def scaled_error(value: Value, *, dataset: str) -> float:
    """Returns the scaled true value minus the scaled prediction of a row that is used."""
    if value.truth is None or value.predicted is None:
        raise ValueError("a row without a truth or without a number has no error; check `is_used`")
    span = RANGES[dataset]
    return scaled(value.truth, span) - scaled(value.predicted, span)


def value_scores(values: Sequence[Value], *, dataset: str) -> ValueScores:
    """Returns the scores of one data set.

    A single reply "nan" or "inf" makes the RMSE non-finite, and the aggregator then leaves out the data set.
    """
    errors = np.array([scaled_error(value, dataset=dataset) for value in values if value.is_used])
    failed = sum(value.is_failed for value in values)
    if not errors.size:
        return ValueScores(math.nan, math.nan, math.nan, math.nan, failed)
    with np.errstate(invalid="ignore", over="ignore"):
        return ValueScores(
            mae=float(np.mean(np.abs(errors))),
            rmse=float(np.sqrt(np.mean(errors**2))),
            std=float(np.std(errors)),
            pct_within_tolerance=float(np.mean(np.abs(errors) <= TOLERANCE) * 100),
            failed_items=failed,
        )
