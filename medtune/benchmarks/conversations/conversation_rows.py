"""Turns conversations in the formats of other training tools into questions about one picture or video each.

Rows that do not fit are left out and counted: rows with several questions (each would need the answers before it), with
several media items or none, and preference data. The formats do not name patients, so all rows about one file count as
one patient.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from medtune.data.raw.row_errors import Place, ReadRows, Reject, read_rows
from medtune.data.raw.source import SourceTable, missing_media
from medtune.data.types import MediaKind, MediaRef, Question

PLACEHOLDER = re.compile(r"[ \t]*<(image|video)>[ \t]*\n?")
KINDS: Mapping[str, MediaKind] = {"images": "image", "videos": "video"}
SYSTEM = "system"
_LINES = ".jsonl"
PATIENT_UNIT = "a media file: these data sets name no patients, so that one patient's images may lie in two splits"


class Turn(NamedTuple):
    """One turn of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: The words of the turn, with the placeholders of its media.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row of a data set.

    Attributes:
        turns: The turns in their order.
        media: The kind and the path, as it is written in the row, of each media item that the conversation shows.
        id: A name that is unique in the data set.
        place: The position of the row in its file, for error messages.
        is_preference: Whether the row holds a preferred and a rejected answer.
        split: The split that the data set states; None if it states none.
    """

    turns: Sequence[Turn]
    media: Sequence[tuple[MediaKind, str]]
    id: str
    place: Place
    is_preference: bool = False
    split: str | None = None


class Row(NamedTuple):
    """A JSON object of a file, and its position there for error messages."""

    place: Place
    values: Mapping[str, object]

    @property
    def id(self) -> str:
        """A name of the row that is unique in the folder, for example "train.jsonl, line 3"."""
        what = "line" if self.place.file.endswith(_LINES) else "row"
        return f"{self.place.file}, {what} {self.place.row}"


def conversation_table(
    conversations: Iterable[Conversation], folder: Path, rejects: Iterable[Reject] = (), *, needs_media: bool
) -> SourceTable:
    """Returns a question for each row with one media item, one question and one answer, and notes that count the rest.

    The text of a question consists of the system turn and the user's turn, without placeholders; its task is
    "conversation". A row is rejected if its media file is missing or lies outside the folder.

    Args:
        conversations: The rows that could be read.
        folder: The folder to which the paths of media are relative.
        rejects: The rows that could not be read, to be added to the table.
        needs_media: Whether a row is rejected if its media file is missing.

    Raises:
        ValueError: No row fits, and none was rejected.
    """
    left_out = Counter[str]()
    fit = []
    for row in conversations:
        why = _unfit(row)
        if why:
            left_out[why] += 1
        else:
            fit.append(row)
    taken, lost = read_rows(fit, lambda row: _question(row, folder, needs_media))
    rejects = (*rejects, *lost)
    if not taken and not rejects:
        raise ValueError(f"{folder}: no row has one picture or film, one question and one answer: {dict(left_out)}.")
    notes = tuple(f"rows left out, {why}: {count}" for why, count in sorted(left_out.items()))
    media = {question.media_id: (ref,) for question, ref in taken}
    missing = missing_media(rejects, folder, fetch="the data set's owner")
    questions = tuple(question for question, _ in taken)
    return SourceTable(questions, media, notes, rejects, missing, stands_for_patient="media file")


def _question(row: Conversation, folder: Path, needs_media: bool) -> tuple[Question, MediaRef]:
    kind, written = row.media[0]
    path = _inside(folder, written, row.place, kind, needs_media)
    user, assistant = (turn for turn in row.turns if turn.role != SYSTEM)
    before = [turn.text.strip() for turn in row.turns if turn.role == SYSTEM]
    question = Question(
        id=row.id,
        media_id=written,
        text="\n".join([*before, PLACEHOLDER.sub("", user.text).strip()]).strip(),
        options=(),
        answer=assistant.text.strip(),
        answer_kind="text",
        patient_id=written,
        facets={"task": "conversation"},
    )
    return question, MediaRef(path, kind=kind)


def json_rows(path: Path, *, file: str) -> ReadRows[Row]:
    """Returns the objects of a file with a JSON list or with JSON lines.

    A line or element that is broken or not a JSON object is rejected without affecting the others.

    Args:
        path: The file.
        file: The name of the file in rejects, relative to the data set's folder.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8 text, or not a JSON list.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Copy it beside the others.")
    try:
        text = path.read_text("utf-8-sig")
        listed = None if path.suffix == _LINES else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}). Take the file again.") from None
    if path.suffix == _LINES:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
        return read_rows(((Place(file, number), line) for number, line in lines), lambda each: _line(*each))
    if not isinstance(listed, list):
        raise ValueError(f"{path}: wanted a JSON list of rows, got {type(listed).__name__}.")
    return read_rows(enumerate(listed, start=1), lambda each: _row(Place(file, each[0]), each[1]))


def _line(place: Place, line: str) -> Row:
    try:
        return _row(place, json.loads(line))
    except json.JSONDecodeError as error:
        raise place.error(f"broken JSON ({error.msg}, column {error.colno}).") from None


def _row(place: Place, values: object) -> Row:
    if not isinstance(values, dict):
        raise place.error(f"wanted a JSON object, got {type(values).__name__}.")
    return Row(place, values)


def said(value: object, place: Place, field: str) -> str:
    """Returns a value of a row that has to be a text.

    Raises:
        RowError: The value is not a text.
    """
    if not isinstance(value, str):
        raise place.error(f"wanted a text, got {json.dumps(value)[:60]}.", field=field)
    return value


def listed_turns(row: Row, field: str, *, role: str = "role", text: str = "content") -> list[Turn]:
    """Returns the turns that a field of a row lists.

    Args:
        row: The row.
        field: The name of the field, which holds a list of objects.
        role: The key of an object under which the role stands.
        text: The key of an object under which the words stand.

    Raises:
        RowError: The field does not hold a list of objects with texts under these keys.
    """
    listed = row.values.get(field)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise row.place.error(f"wanted a list of objects, got {type(listed).__name__}.", field=field)
    return [Turn(said(each.get(role), row.place, role), said(each.get(text), row.place, text)) for each in listed]


def listed_media(row: Row, names: Mapping[str, str]) -> list[tuple[MediaKind, str]]:
    """Returns the kind and the written path of each media item of a row.

    Args:
        row: The row.
        names: The names of the row's columns "images" and "videos", if they have other names.

    Raises:
        RowError: A column holds neither a path nor a list of paths.
    """
    found: list[tuple[MediaKind, str]] = []
    for column, kind in KINDS.items():
        name = names.get(column, column)
        value = row.values.get(name)
        paths = value if isinstance(value, list) else [] if value is None else [value]
        # ms-swift also accepts {"path": ...} in place of a path, like the data sets of the transformers library.
        written = (path.get("path") if isinstance(path, dict) else path for path in paths)
        found += [(kind, said(path, row.place, name)) for path in written]
    return found


def _unfit(row: Conversation) -> str | None:
    if row.is_preference:
        return "a preferred and a rejected answer"
    if len(row.media) != 1:
        return "several media" if row.media else "no picture or film"
    roles = [turn.role for turn in row.turns if turn.role != SYSTEM]
    if roles != ["user", "assistant"]:
        return "not one question and one answer"
    return None if row.turns[-1].text.strip() else "an empty answer"


def _inside(folder: Path, written: str, place: Place, kind: MediaKind, needs_media: bool) -> Path:
    path = folder / written
    if not path.resolve().is_relative_to(folder.resolve()):
        raise place.error(
            f"the {kind}'s file lies outside of the folder. Move it in, and write its path relative to it."
        )
    if needs_media and not path.is_file():
        raise place.error(f"there is no such {kind} file. Copy it, or correct the path.", media=path)
    return path
