"""Collects the rows of raw files that cannot become questions, each with its place and the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

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
    def reject_broken(self, media: Path) -> Iterator[None]:
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


class ReadRows(NamedTuple, Generic[_Read]):
    """What was read, and what could not be."""

    taken: list[_Read]
    rejects: tuple[Reject, ...]


def read_rows(items: Iterable[_Item], read: Callable[[_Item], _Read]) -> ReadRows[_Read]:
    """Returns what `read` makes of each item, in order, and a reject for each item at which it raises a RowError."""
    taken: list[_Read] = []
    rejects: list[Reject] = []
    for item in items:
        try:
            taken.append(read(item))
        except RowError as error:
            rejects.append(error.reject)
    return ReadRows(taken, tuple(rejects))


def repeat_rejects(rejects: Iterable[Reject], *, made: int, of: int) -> tuple[Reject, ...]:
    """Returns each reject as many times as one of the `of` things that were read made questions, at least once.

    What would have been asked about an image that cannot be read is unknown: it counts like the average one.

    Example:
        >>> len(repeat_rejects([Reject("images", 3, None, "broken")], made=60, of=20))
        3
    """
    each = max(1, round(made / of)) if of else 1
    return tuple(reject for reject in rejects for _ in range(each))
