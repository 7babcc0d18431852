"""Reads the true answers in U2-Bench's tables as the official scripts do, for comparison with medtune's own reader.

Source: strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/measure_eval_v1.2.py and seg_eval_v1.1.py; the unused
function: vlmeval/dataset/image_seg.py. lenient: gurenolun/Dolphin-ai-bench, new_results/qwen_measure_eval.py and
qwen_seg_eval.py.
"""

import json
import math
from collections.abc import Collection, Mapping

from medtune.benchmarks.u2_bench.official.labels import MISSING, Mode, OfficialFailureError, Value, predicted_value
from medtune.data.media.masks import NOT_VISIBLE, cell_of_point

_KEYS: Mapping[str, str] = {"18": "EF", "27": "IMT", "50": "abdominal_circumference"}
_LAST_KEY = "fat value"


def read_value(cell: str | None, reply: str | None, *, dataset: str, mode: Mode) -> Value:
    """Returns how a script reads a truth cell and a reply."""
    truth = _truth(cell, dataset)
    if truth == MISSING or (truth is None and mode == "strict"):
        return Value()
    predicted = predicted_value(reply, mode=mode)
    if predicted is None:
        return Value(is_failed=True)
    if isinstance(truth, list) and mode == "lenient":
        truth = truth[0] if truth else None
    try:
        return Value(float(truth), predicted)  # type: ignore[arg-type]  # what is no number is what the except is for
    except (TypeError, ValueError) as error:
        raise OfficialFailureError(type(error).__name__, "the truth cannot become a number") from error


def _truth(cell: str | None, dataset: str) -> object:
    """Returns what a truth cell holds; "nan" where it cannot be read.

    IMT is the first element of what the cell holds: the first *character* where that is a text, nothing where it is
    a bare number.
    """
    try:
        found = json.loads((cell or "").replace("'", '"'))
        if isinstance(found, dict):
            value = found[_KEYS.get(dataset, _LAST_KEY)]
            return next(iter(value)) if dataset == "27" else value
        return next(iter(found[0].values())) if isinstance(found, list) else None
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, StopIteration):
        return MISSING


def true_position(cell: str | None) -> str:
    """Returns the label of a truth cell: the first value of its first dict; "not visible" where that is no point."""
    try:
        found = json.loads((cell or "").replace("'", '"'))
        point = next(iter((found if isinstance(found, dict) else found[0]).values()))
        x, y = (float(value) for value in point[:2]) if isinstance(point, list) else (math.nan, math.nan)
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, StopIteration):
        return NOT_VISIBLE
    return NOT_VISIBLE if math.isnan(x) or math.isnan(y) else cell_of_point(x, y)


def truth_column(columns: Collection[str], *, mode: Mode) -> str:
    """Returns the column that a script takes the truth from; they disagree where a table has both."""
    wanted = ("gt_bbox", "keypoints") if mode == "strict" else ("keypoints", "gt_bbox")
    return wanted[0] if wanted[0] in columns else wanted[1]


def unused_cell_of(x: float, y: float) -> str:
    """Returns the cell by the evalkit's unused function, which has no way to say "middle right"."""
    cell = cell_of_point(x, y)
    if cell == "middle right":
        raise OfficialFailureError("UnboundLocalError", "its condition asks for x >= 0.55 and x < 0.55")
    return cell
