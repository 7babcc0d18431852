"""Rows of a source that cannot be asked: collected and counted, kept in a file, and refused where they are too many."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REJECTS = "rejects.jsonl"
MAX_REJECTED = 0.01
"""Share of a source's questions that may be rejected unless the user says otherwise (our own choice)."""
_NUM_SHOWN = 5
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|(?<!\w)[-+]?\d[\d.,]*")


@dataclass(frozen=True, slots=True)
class Reject:
    """One question that was not taken. Only `media` may name a patient: it is shown once and never stored.

    Attributes:
        file: The table that holds the row, relative to the source's folder; "" where the media file is at fault.
        row: Its line, or its number among the file's rows (or the source's questions), from 1.
        field: The field that is wrong, as the file spells it; None for the row as a whole.
        reason: What was wanted and what came.
        media: The media file that is missing or broken.
    """

    file: str
    row: int
    field: str | None
    reason: str
    media: Path | None = None

    def __str__(self) -> str:
        """Returns where and why, for the user's own screen."""
        if not self.file:
            return f"{self.media}: {self.reason}"
        field = f", field {self.field!r}" if self.field else ""
        return f"{self.file}, line {self.row}{field}: {self.reason}" + (f" {self.media}" if self.media else "")

    @property
    def kind(self) -> str:
        """The reason without the row's own values: what rejects are counted by."""
        said = _VALUES.sub("...", re.split(r"(?<=[a-z.])\.(?:\s|$)", self.reason)[0]).strip(" .:")
        return f"field {self.field!r}: {said}" if self.field else said


class RowError(ValueError):
    """What a source raises while it reads a row, and collects."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(str(reject))
        self.reject = reject


def counts(rejects: Sequence[Reject]) -> dict[str, int]:
    """Returns the number of rejects by kind, the most frequent first."""
    return dict(Counter(reject.kind for reject in rejects).most_common())


def table(by_kind: Mapping[str, int], num_taken: int) -> str:
    """Returns what was rejected and why as plain text, one kind a line."""
    total = sum(by_kind.values())
    share = total / (total + num_taken)
    lines = [f"rejected {total} of {total + num_taken} questions ({share:.1%}):"]
    return "\n".join([*lines, *(f"  {count:>7}  {kind}" for kind, count in by_kind.items())])


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Writes one JSON object a line: file, row, field and reason."""
    rows = ({"file": r.file, "row": r.row, "field": r.field, "reason": r.reason} for r in rejects)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def check_share(rejects: Sequence[Reject], *, num_taken: int, max_share: float, keep: Path) -> None:
    """Refuses a source of which more than a share is rejected; the rejects are then kept in the file `keep`.

    Raises:
        ValueError: There are too many; the message has the table and the first rejects.
    """
    if not rejects or len(rejects) <= max_share * (len(rejects) + num_taken):
        return
    keep.parent.mkdir(parents=True, exist_ok=True)
    write_rejects(keep, rejects)
    first = "\n".join(f"  {reject}" for reject in rejects[:_NUM_SHOWN])
    raise ValueError(
        f"{table(counts(rejects), num_taken)}\nThe first of them:\n{first}\nAll are in {keep}. This is more than the "
        f"share of {max_share:g} that is allowed: correct the files, or allow more with --max-rejected."
    )
