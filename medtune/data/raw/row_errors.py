"""Collects the rows of raw files that cannot become questions, each with its place and the reason."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

_BY_LINES = (".csv", ".tsv", ".jsonl", ".xlsx")
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|(?<!\w)[-+]?\d[\d.,]*")


@dataclass(frozen=True, slots=True)
class Reject:
    """One question that was left out because its row or its media file is wrong.

    Only `media` and `cell` may contain a patient's name: a column that is shifted puts one anywhere. They are never
    stored; `media` is shown on the screen, and `cell` stands only in the file that the user asks for (--show-cells).
    """

    # The table that holds the row, or the folder that holds the image, relative to the source's folder. A folder that
    # is named after a patient is replaced by its number in order of names, such as [3]. It is "" if a media file turned
    # out to be broken only when it was copied.
    file: str
    row: int  # The line of the table, or a number from 1 among the file's rows, the folder's files or the questions.
    field: str | None  # The field that is wrong, as the file spells it; None for the row as a whole.
    reason: str
    media: Path | None = None
    cell: str = ""  # What the row holds where something else was wanted.

    def __str__(self) -> str:
        if not self.file:
            return f"{self.media}: {self.reason}"
        field = f", field {self.field!r}" if self.field else ""
        what = "line" if self.file.endswith(_BY_LINES) else "number"
        return f"{self.file}, {what} {self.row}{field}: {self.reason}" + (f" {self.media}" if self.media else "")

    @property
    def kind(self) -> str:
        """The reason without the row's own values; rejects are counted by it."""
        said = _VALUES.sub("...", re.split(r"(?<=[a-z.])\.(?:\s|$)", self.reason)[0]).strip(" .:")
        return f"field {self.field!r}: {said}" if self.field else said


class Broken(NamedTuple):
    """The media item that could not be copied, and why."""

    path: Path
    reason: str


class RowError(ValueError):
    """The error of a raw row that cannot become a question; `read_rows` catches it and collects its reject."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(str(reject))
        self.reject = reject


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a raw row: the file and the row that its reject states."""

    file: str
    row: int

    def error(self, reason: str, *, field: str | None = None, media: Path | None = None, cell: object = "") -> RowError:
        """Returns the error that rejects this row; the reason says what was wanted, and never what the cell holds."""
        return RowError(Reject(self.file, self.row, field, reason, media, str(cell)))

    @contextmanager
    def reject_broken(self, media: Path) -> Iterator[None]:
        """Turns the errors of reading a media file into the error of its row, without the file's name in the reason."""
        try:
            yield
        except RowError:
            raise
        except (FileNotFoundError, ValueError) as error:
            raise self.error(str(error).removeprefix(f"{media}: "), media=media) from error


class ReadRows(NamedTuple, Generic[_Read]):
    """The rows that were read, and a reject for each that could not be read."""

    taken: list[_Read]
    rejects: tuple[Reject, ...]


def read_rows(items: Iterable[_Item], read: Callable[[_Item], _Read]) -> ReadRows[_Read]:
    """Returns the result of `read` for each raw row, in order, and a reject for each row that raises a RowError."""
    taken: list[_Read] = []
    rejects: list[Reject] = []
    for item in items:
        try:
            taken.append(read(item))
        except RowError as error:
            rejects.append(error.reject)
    return ReadRows(taken, tuple(rejects))


def repeat_rejects(rejects: Iterable[Reject], *, made: int, of: int) -> tuple[Reject, ...]:
    """Returns each reject of a raw image as many times as the average image made questions, at least once.

    The questions about an image that cannot be read are unknown, so that it counts like an average image.

    Args:
        rejects: The images that could not be read.
        of: The number of images that they were made of.

    Example:
        >>> len(repeat_rejects([Reject("images", 3, None, "broken")], made=60, of=20))
        3
    """
    each = max(1, round(made / of)) if of else 1
    return tuple(reject for reject in rejects for _ in range(each))


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is to be read, where its own names do not say it."""

    # The folder to which paths of media are relative; None for the folder of the table.
    media_folder: Path | None = None
    # The column of each role, such as {"question": "Q"}; several columns are separated by commas, and "" lets a role
    # have none.
    columns: Mapping[str, str] = field(default_factory=dict)
    # The columns by which scores are broken down; None takes all with few values that have no other role.
    facets: tuple[str, ...] | None = None
    question: str | None = None  # The question that is asked of every row; None takes the column with the questions.
    # The options, in their order, of every row that has none of its own; empty takes the row's.
    options: tuple[str, ...] = ()
    # The words in which an answer of the data is asked for, such as {"1": "yes"}, without its case.
    answers: Mapping[str, str] = field(default_factory=dict)
    # The number of the first option where answers are the places of options; None tells it from the rows where it is
    # certain.
    index_from: int | None = None
    # A pattern that finds the patient in the path of a row's first file: its first group, or all of it; None takes the
    # column.
    patient: re.Pattern[str] | None = None
    # Which of the rows that ask the same of the same media stay: "first", or "all"; None keeps the first, and none
    # where their answers differ.
    keep: Literal["first", "all"] | None = None
    language: str | None = None  # The language in which a prompt says how to answer; None takes that of the questions.
    # Whether a row's labels are asked about in one question, or each in a yes-or-no question.
    ask_labels: Literal["one", "each"] = "each"
    uncertain: Literal["yes", "no"] | None = None  # What a label that nobody knows counts as; None leaves it out.
    tolerance: str = ""  # The largest error of a number that counts as right, such as "2 mm" or "10%"; "" for none.
    # Whether the rows are questions without answers, to be predicted; answers that are there stay unread.
    unanswered: bool = False
    # The split that a name of the data stands for: "train", "val", "test", or "none" to leave its rows out.
    splits: Mapping[str, str] = field(default_factory=dict)
    # The number of patients of each split after which a data set of the hub is read no further; None reads all.
    limit: int | None = None

    def renamed(self, answer: str) -> str:
        """Returns an answer of the data in the words that the user gives it."""
        return {said.casefold(): word for said, word in self.answers.items()}.get(answer.casefold(), answer)

    @property
    def media_folders(self) -> tuple[Path, ...]:
        """The folder that the user names, if there is one."""
        return () if self.media_folder is None else (self.media_folder,)


NOTHING_SAID = TableOptions()
