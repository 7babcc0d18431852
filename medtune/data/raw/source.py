"""Defines a source: how raw files in their own layout are read into questions and media.

Rows that cannot become questions are collected, each with its place and the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from medtune.data.types import MediaRef, Provenance, Question

_BY_LINES = (".csv", ".tsv", ".jsonl", ".xlsx")
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|(?<!\w)[-+]?\d[\d.,]*")

Found = Mapping[str, Any]
"""What was found out about each media item, by its id: an outcome, or a `NotFound` where the call failed."""


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
    """The error of a raw row that cannot become a question; what reads the rows catches it and collects its reject."""

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
    frames_per_s: float | None = None  # The frames a second of cines that do not say their own; None refuses these.
    sheet: str | None = None  # The sheet of a workbook; None takes the first with rows.
    header: int | None = None  # The row or line with the names of the columns, from 1; None takes the first filled one.
    # The number of patients of each split after which a data set of the hub is read no further; None reads all.
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.patient is not None and self.patient.groups > 1:
            raise ValueError(
                f"--patient {self.patient.pattern!r}: wanted one group in parentheses, which is the patient, got "
                f"{self.patient.groups}. Write the others as (?:...), or put one around all that tells the patient."
            )

    def renamed(self, answer: str) -> str:
        """Returns an answer of the data in the words that the user gives it."""
        return {said.casefold(): word for said, word in self.answers.items()}.get(answer.casefold(), answer)

    @property
    def media_folders(self) -> tuple[Path, ...]:
        """The folder that the user names, if there is one."""
        return () if self.media_folder is None else (self.media_folder,)


NOTHING_SAID = TableOptions()


class HubId(NamedTuple):
    """The name of a data set on the hub."""

    id: str  # The repository, such as "flaviagiammarino/vqa-rad"; or the path of a folder that holds a copy of it.
    config: str | None = None  # The configuration of the data set; None for its only or default one.
    revision: str | None = None  # The branch, tag or commit; None for the newest.

    def __str__(self) -> str:
        config = f":{self.config}" if self.config else ""
        return f"hf:{self.id}{config}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class Missing:
    """A media file that raw questions are about and that the user's folder lacks.

    Attributes:
        file: The path where it belongs, relative to the folder.
        fetch: Where the file can be found: a URL, or words.
    """

    file: str
    fetch: str


def missing_media(rejects: Iterable[Reject], folder: Path, *, fetch: str) -> tuple[Missing, ...]:
    """Returns each media file that rejects name and that does not exist; `fetch` says where the files can be found."""
    paths = dict.fromkeys(
        reject.media for reject in rejects if reject.media is not None and not os.path.exists(reject.media)
    )
    return tuple(
        Missing(str(path.relative_to(folder) if path.is_relative_to(folder) else path), fetch) for path in paths
    )


class MediaDraw(NamedTuple):
    """A call that makes media files, which a simulation leaves to the processes that copy them.

    Attributes:
        folder: The folder that the call makes, in the scratch folder; all files that it holds are made by this call.
        make: The call, which must be picklable: a function at the top level of a module that can be imported.
        said: What decides the content of the files: simulation, seed, patient. An interrupted preparation continues
            with the files that were made under the same words.
    """

    folder: Path
    make: Callable[[], Any]
    said: str


class MediaFinding(NamedTuple):
    """A call that finds out about one media item what its questions ask, which several processes share.

    Attributes:
        find: The call, which must be picklable. It returns what JSON can hold, and raises a ValueError or
            FileNotFoundError where the files are wrong.
        said: What decides the outcome, or the files that do. An interrupted preparation keeps what was found under the
            same words and unchanged files.
    """

    find: Callable[[], Any]
    said: str | tuple[Path, ...]


class NotFound(NamedTuple):
    """Why nothing was found out about a media item."""

    reason: str


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The questions and media that a source read from raw files.

    Ids need only be unique in this table, and patient ids may be those of the files: `prepare` replaces media and
    question ids by ids made from content, and patient ids by keyed hashes.

    Attributes:
        questions: The questions in the order of the files.
        media: The media items that each media id names, in the order in which they are shown; the empty tuple for
            questions without media.
        notes: What was left out on purpose and why, with counts and without file names; `prepare` puts the notes in the
            manifest.
        rejects: One reject for each question that could not be read or has no media. A row that would have given two
            questions counts twice; an image whose number of questions is unknown counts like an average one.
        missing: The media files that the user still has to fetch.
        stands_for_patient: What the patient ids name, as a noun: "patient", or where the files do not say whose images
            they are, what stands for a patient, e.g. "image", "film" or "image or film". Outputs then say so.
        draws: How media files are made that are not there yet, by their paths. Drawing is then divided among processes.
        findings: For a source that makes questions of its media: what has to be found out about each, by media id. The
            questions above only tell its patients and answers apart, for a limit, and `ask` makes the real ones.
        ask: A function of (table, what was found) that returns the table with its questions.
    """

    questions: Sequence[Question]
    media: Mapping[str, tuple[MediaRef, ...]]
    notes: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()
    missing: tuple[Missing, ...] = ()
    stands_for_patient: str = "patient"
    draws: Mapping[Path, MediaDraw] = field(default_factory=dict)
    findings: Mapping[str, MediaFinding] = field(default_factory=dict)
    ask: Callable[[SourceTable, Found], SourceTable] | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of raw files and how they are read into questions.

    Attributes:
        title: The name for people.
        licence: The licence of the raw files.
        url: Where the raw files can be found.
        provenance: Whether the questions were released, are the user's own, were reconstructed or simulated.
        patient_unit: What stands for a patient, in words, if the files name no patients.
        read: A function of (root, seed, scratch) that returns the table. `root` is the user's folder, None for a
            simulation. `scratch` is an empty folder for images that exist as files nowhere else: simulated ones, or
            those inside a table or a video. `Question.split` is set only if the files come with a split of their own.
        write_example: Writes a small synthetic folder in the source's own layout, which `medtune check` prepares. It is
            None for simulations, and for medtune's own sources, whose examples stand in tests.
        write_settings: A function of (folder, number of patients) that writes a simulation's settings into the folder,
            which `read` then takes as its root. It is None for a source that reads the user's files.
        test_only: Whether the release is for evaluation only: everything is test, unless the user asks for a split.
        read_questions: A function like `read` that also gives the questions whose media files are not in the folder;
            the paths in its media may then lead to no file. It is None for a source whose questions are made from the
            media.
        read_hub: A function like `read` for a data set of the Hugging Face hub, which the user names with hf:ID in
            place of a folder. It is None for a source that is not on the hub in a form that it reads.
        recognises: A function that says of a path or of a hub data set whether it is in the source's layout; None for a
            source that does not tell. A benchmark with several sources takes the first that says so, unless the user
            names one.
        with_options: A function that returns the source with what the user says about his table. It is None for a
            source that knows its own files.
        keeps_leaks: Whether the release's own splits share patients or images. They are then kept as they are, and
            every output states how many test questions are concerned; else such splits are refused.
        text_unit: What a free answer is where it is a whole text, as a noun, e.g. "report". Where leaks are kept, the
            test questions whose text stands word for word in train are then counted among them; "" for short answers.
        has_columns: Whether the files have columns, one of which may name patients.
        has_sheets: Whether the files may be workbooks, whose sheet and header row the user names.
        name: The name of the module that defines the source; filled in when the source is found by its name.
    """

    title: str
    licence: str
    url: str
    provenance: Provenance
    patient_unit: str
    read: Callable[[Path | None, int, Path], SourceTable]
    write_example: Callable[[Path], None] | None = None
    write_settings: Callable[[Path, int], None] | None = None
    test_only: bool = False
    read_questions: Callable[[Path | None, int, Path], SourceTable] | None = None
    read_hub: Callable[[HubId, int, Path], SourceTable] | None = None
    recognises: Callable[[Path | HubId], bool] | None = None
    with_options: Callable[[TableOptions], Source] | None = None
    keeps_leaks: bool = False
    text_unit: str = ""
    has_columns: bool = True
    has_sheets: bool = False
    name: str = ""
