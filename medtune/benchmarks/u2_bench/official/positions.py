"""Reads replies about the place of a box or keypoint, in nine cells, as the official scripts do.

Source:
    strict: dolphin-sound/u2-bench-evalkit, vlmeval/eval_func/seg_eval_v1.1.py. lenient: gurenolun/Dolphin-ai-bench,
    new_results/qwen_seg_eval.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.benchmarks.u2_bench.official.errors import OfficialFailureError
from medtune.benchmarks.u2_bench.official.labels import Mode
from medtune.data.media.masks import LOCATIONS

# These are tried if the reply contains none of LOCATIONS. "center" is one of them, so no pair here contains it.
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
