"""Reads replies about the place of a box or keypoint, in nine cells, as the official scripts do.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/seg_eval_v1.1.py. lenient: gurenolun/Dolphin-ai-bench,
    new_results/qwen_seg_eval.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.benchmarks.u2_bench.official.errors import OfficialFailureError
from medtune.benchmarks.u2_bench.official.labels import Mode
from medtune.data.media.masks import LOCATIONS

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
    """A reply as an official script reads it.

    Attributes:
        label: None where no position is found: kept by the lenient script, and wrong.
        is_dropped: The row leaves numerator and denominator.
    """

    label: str | None
    is_dropped: bool = False


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
