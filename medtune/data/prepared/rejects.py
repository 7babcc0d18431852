"""Counts the rejected rows of a source, lists them in rejects.jsonl, and refuses a source that has too many."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from medtune.data.raw.row_errors import Reject

REJECTS = "rejects.jsonl"
MAX_REJECTED = 0.01
"""The share of a source's questions that may be rejected unless the user sets another (our own choice)."""
_NUM_SHOWN = 5


def count_rejects(rejects: Sequence[Reject]) -> dict[str, int]:
    """Returns the number of rejected questions by kind of reason, the most frequent first."""
    return dict(Counter(reject.kind for reject in rejects).most_common())


def rejects_table(by_kind: Mapping[str, int], num_taken: int) -> str:
    """Returns a plain-text table of the rejected questions, one kind of reason a line."""
    total = sum(by_kind.values())
    share = total / (total + num_taken)
    lines = [f"rejected {total} of {total + num_taken} questions ({share:.1%}):"]
    return "\n".join([*lines, *(f"  {count:>7}  {kind}" for kind, count in by_kind.items())])


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Writes rejects.jsonl, one JSON object a line with file, row, field and reason."""
    rows = ({"file": r.file, "row": r.row, "field": r.field, "reason": r.reason} for r in rejects)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def check_rejected_share(rejects: Sequence[Reject], *, num_taken: int, max_share: float, keep: Path) -> None:
    """Checks that no more than a share of a source's questions is rejected.

    Args:
        rejects: The rejected questions.
        num_taken: The number of questions that were not rejected.
        max_share: The highest share that may be rejected.
        keep: The file that lists the rejects if there are too many.
    """
    if not rejects or len(rejects) <= max_share * (len(rejects) + num_taken):
        return
    keep.parent.mkdir(parents=True, exist_ok=True)
    write_rejects(keep, rejects)
    different = list(dict.fromkeys(map(str, rejects)))
    first = "\n".join(f"  {said}" for said in different[:_NUM_SHOWN])
    raise ValueError(
        f"{rejects_table(count_rejects(rejects), num_taken)}\nThe first of them:\n{first}\nAll are in {keep}. "
        f"This is more than the share of {max_share:g} that is allowed: correct the files, or allow more with "
        "--max-rejected. Questions whose media are missing can be prepared for scoring alone: --without-media."
    )
