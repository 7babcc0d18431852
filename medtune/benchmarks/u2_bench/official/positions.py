"""Where a box or keypoint is, in nine cells, and how the official scripts read a reply about it.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/seg_eval_v1.1.py; the unused function:
    vlmeval/dataset/image_seg.py. lenient: gurenolun/Dolphin-ai-bench, new_results/qwen_seg_eval.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from medtune.benchmarks.u2_bench.official.errors import OfficialFailureError
from medtune.benchmarks.u2_bench.official.labels import Mode
from medtune.data.media.masks import LOCATIONS, NOT_VISIBLE, cell_of_point

# Tried where none of LOCATIONS is in the reply; "center" is, so pairs with it cannot come here.
_PAIRS = (
    ("upper", "left"),
    ("upper", "right"),
    ("middle", "left"),
    ("central", ""),
    ("middle", "right"),
    ("lower", "left"),
    ("lower", "right"),
    ("not", "visible"),
)


@dataclass(frozen=True, slots=True)
class Position:
    """How a script reads a reply.

    Attributes:
        label: None where no position is found: kept by the lenient script, and wrong.
        is_dropped: The row leaves numerator and denominator.
    """

    label: str | None
    is_dropped: bool = False


def true_position(cell: str | None) -> str:
    """Returns the label of a truth cell: the first value of its first dict; "not visible" where that is no point."""
    try:
        found = json.loads((cell or "").replace("'", '"'))
        point = next(iter((found if isinstance(found, dict) else found[0]).values()))
        x, y = (float(value) for value in point[:2]) if isinstance(point, list) else (math.nan, math.nan)
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, StopIteration):
        return NOT_VISIBLE
    return NOT_VISIBLE if math.isnan(x) or math.isnan(y) else cell_of_point(x, y)


def read_position(reply: str | None, *, mode: Mode) -> Position:
    """Returns how a script reads a reply.

    The lenient script takes the first of `LOCATIONS` that the reply contains. "center" comes before "lower center",
    which can therefore never be read.
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
    """Returns right / kept rows.

    Raises:
        OfficialFailureError: No row is kept; the script reports no result for the data set.
    """
    kept = [
        (truth, position.label) for truth, position in zip(truths, positions, strict=True) if not position.is_dropped
    ]
    if not kept:
        raise OfficialFailureError("no valid samples", "every reply was dropped")
    return sum(truth == label for truth, label in kept) / len(kept)


def truth_column(columns: Collection[str], *, mode: Mode) -> str:
    """Returns the column that a script takes the truth from; they disagree where a table has both."""
    wanted = ("gt_bbox", "keypoints") if mode == "strict" else ("keypoints", "gt_bbox")
    return wanted[0] if wanted[0] in columns else wanted[1]


def unused_cell_of(x: float, y: float) -> str:
    """Returns the cell by the evalkit's unused function, which has no way to say "middle right".

    Raises:
        OfficialFailureError: For that cell; in a longer table the row would inherit the label of the row before.
    """
    cell = cell_of_point(x, y)
    if cell == "middle right":
        raise OfficialFailureError("UnboundLocalError", "its condition asks for x >= 0.55 and x < 0.55")
    return cell
