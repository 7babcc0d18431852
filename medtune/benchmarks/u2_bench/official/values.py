"""Reads and scores clinical values as the official scripts do.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/measure_eval_v1.2.py. lenient:
    gurenolun/Dolphin-ai-bench, new_results/qwen_measure_eval.py; the pre-pass: its
    scripts/extract_measurement_values_improved.py.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medtune.benchmarks.u2_bench.official.labels import Mode
from medtune.benchmarks.u2_bench.weights_and_ranges import RANGES, TOLERANCE, Range

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


@dataclass(frozen=True, slots=True)
class Value:
    """One row as a script sees it.

    Attributes:
        truth: The true value; None if the row is not used.
        predicted: The value in the reply; None if the row is not used.
        is_failed: Whether the row is counted as failed, because its reply gives no number. A row that is neither used
            nor failed has no true value; the script skips it without counting it.
    """

    truth: float | None = None
    predicted: float | None = None
    is_failed: bool = False

    @property
    def is_used(self) -> bool:
        """Whether the row enters the scores."""
        return self.truth is not None


@dataclass(frozen=True, slots=True)
class ValueScores:
    """The scores of one data set; errors are in units of the range of values, and nan if no row is used.

    Attributes:
        mae: The mean absolute error.
        rmse: The root mean square error.
        std: The population standard deviation of the signed errors.
        pct_within_tolerance: The percentage of rows whose error is within the tolerance, 0 to 100.
        failed_items: The number of rows whose reply gives no number.
    """

    mae: float
    rmse: float
    std: float
    pct_within_tolerance: float
    failed_items: int


def predicted_value(reply: str | None, *, mode: Mode) -> float | None:
    """Returns the number that a script reads from a reply, or None if it reads none.

    The strict script accepts only a reply that is a number as a whole. In other replies, the lenient script takes the
    first decimal number, or else the first whole number; it loses the sign and what follows a thousands separator.

    Example:
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

    Example:
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
