"""Rows of a source that cannot be asked: collected and counted, kept in a file, and refused where they are too many."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

REJECTS = "rejects.jsonl"
MAX_REJECTED = 0.01
"""Share of a source's questions that may be rejected unless the user says otherwise (our own choice)."""
_NUM_SHOWN = 5
_BY_LINES = (".csv", ".tsv", ".jsonl")
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|(?<!\w)[-+]?\d[\d.,]*")


@dataclass(frozen=True, slots=True)
class Reject:
    """One question that was not taken. Only `media` may name a patient: it is shown once and never stored.

    Attributes:
        file: The table that holds the row, or the folder that holds the image, relative to the source's folder; a
            folder that is named after a patient is written as its number by name, such as [3]. "" where a media file
            turned out to be broken only when it was stored.
        row: Its line, or its number from 1 among the file's rows, the folder's files by name or the source's questions.
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
        what = "line" if self.file.endswith(_BY_LINES) else "number"
        return f"{self.file}, {what} {self.row}{field}: {self.reason}" + (f" {self.media}" if self.media else "")

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands: file and row of its Reject."""

    file: str
    row: int

    def error(self, reason: str, *, field: str | None = None, media: Path | None = None) -> RowError:
        """Returns the error that rejects this row."""
        return RowError(Reject(self.file, self.row, field, reason, media))

    @contextmanager
    def reading(self, media: Path) -> Iterator[None]:
        """Turns what is wrong with a media file into the row's error; the file's name stays out of the reason.

        Raises:
            RowError: Within, a FileNotFoundError or ValueError was raised.
        """
        try:
            yield
        except RowError:
            raise
        except (FileNotFoundError, ValueError) as error:
            raise self.error(str(error).removeprefix(f"{media}: "), media=media) from error


class Collected(NamedTuple, Generic[_Read]):
    """What was read, and what could not be."""

    taken: list[_Read]
    rejects: tuple[Reject, ...]


def collected(items: Iterable[_Item], read: Callable[[_Item], _Read]) -> Collected[_Read]:
    """Returns what `read` makes of each item, in order, and a reject for each item at which it raises a RowError."""
    taken: list[_Read] = []
    rejects: list[Reject] = []
    for item in items:
        try:
            taken.append(read(item))
        except RowError as error:
            rejects.append(error.reject)
    return Collected(taken, tuple(rejects))


def as_often(rejects: Iterable[Reject], *, made: int, of: int) -> tuple[Reject, ...]:
    """Returns each reject as many times as one of the `of` things that were read made questions, at least once.

    What would have been asked about an image that cannot be read is unknown: it counts like the average one.

    Example:
        >>> len(as_often([Reject("images", 3, None, "broken")], made=60, of=20))
        3
    """
    each = max(1, round(made / of)) if of else 1
    return tuple(reject for reject in rejects for _ in range(each))


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
    different = list(dict.fromkeys(map(str, rejects)))
    first = "\n".join(f"  {said}" for said in different[:_NUM_SHOWN])
    raise ValueError(
        f"{table(counts(rejects), num_taken)}\nThe first of them:\n{first}\nAll are in {keep}. This is more than the "
        f"share of {max_share:g} that is allowed: correct the files, or allow more with --max-rejected."
    )
