"""Conversations of other training tools as questions: one picture or film, one question, one answer.

Rows that medtune cannot ask are left out and counted: those with several turns (a later turn would lack the earlier
ones), with several media items or none, and preference data. The formats name no patients, so all rows about one file
count as one patient.
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
    """One turn of a conversation; `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row.

    Attributes:
        media: (kind, path as written) of every media item that it shows.
        id: Its name, unique in the data set.
    """

    turns: Sequence[Turn]
    media: Sequence[tuple[MediaKind, str]]
    id: str
    place: Place
    is_preference: bool = False
    split: str | None = None


class Row(NamedTuple):
    """A JSON object and its place."""

    place: Place
    values: Mapping[str, object]

    @property
    def id(self) -> str:
        """Names the row in its folder."""
        what = "line" if self.place.file.endswith(_LINES) else "row"
        return f"{self.place.file}, {what} {self.place.row}"


def conversation_table(
    conversations: Iterable[Conversation], folder: Path, rejects: Iterable[Reject] = ()
) -> SourceTable:
    """Returns the rows that one question about one media item can hold, and notes that count the others.

    The system turn and the user's words, without their placeholders, are the question; task is "conversation". A row
    whose media file is missing or outside the folder is rejected; `rejects` are those of rows that could not be read.

    Raises:
        ValueError: No row could be taken, and none was rejected.
    """
    left_out = Counter[str]()
    fit = []
    for row in conversations:
        why = _unfit(row)
        if why:
            left_out[why] += 1
        else:
            fit.append(row)
    taken, lost = read_rows(fit, lambda row: _question(row, folder))
    rejects = (*rejects, *lost)
    if not taken and not rejects:
        raise ValueError(f"{folder}: no row has one picture or film, one question and one answer: {dict(left_out)}.")
    notes = tuple(f"rows left out, {why}: {count}" for why, count in sorted(left_out.items()))
    media = {question.media_id: ref for question, ref in taken}
    missing = missing_media(rejects, folder, fetch="the data set's owner")
    return SourceTable(tuple(question for question, _ in taken), media, notes, rejects, missing)


def _question(row: Conversation, folder: Path) -> tuple[Question, MediaRef]:
    kind, written = row.media[0]
    path = _inside(folder, written, row.place, kind)
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
    """Returns the objects of a JSON list or of JSON lines; a line that is broken or no object is rejected alone.

    `file` names the file in rejects.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no text, or no JSON list.
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
    """Returns a text of a row.

    Raises:
        RowError: It is no text.
    """
    if not isinstance(value, str):
        raise place.error(f"wanted a text, got {json.dumps(value)[:60]}.", field=field)
    return value


def listed_turns(row: Row, field: str, *, role: str = "role", text: str = "content") -> list[Turn]:
    """Returns the turns in a row's list of objects; `role` and `text` are their keys.

    Raises:
        RowError: It is no list of objects of texts.
    """
    listed = row.values.get(field)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise row.place.error(f"wanted a list of objects, got {type(listed).__name__}.", field=field)
    return [Turn(said(each.get(role), row.place, role), said(each.get(text), row.place, text)) for each in listed]


def listed_media(row: Row, names: Mapping[str, str]) -> list[tuple[MediaKind, str]]:
    """Returns the media of a row; `names` gives the row's columns of images and videos.

    Raises:
        RowError: A column holds no path, nor a list of them.
    """
    found: list[tuple[MediaKind, str]] = []
    for column, kind in KINDS.items():
        name = names.get(column, column)
        value = row.values.get(name)
        paths = value if isinstance(value, list) else [] if value is None else [value]
        # ms-swift also writes {"path": ...}, as the data sets of transformers do.
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


def _inside(folder: Path, written: str, place: Place, kind: MediaKind) -> Path:
    path = folder / written
    if not path.resolve().is_relative_to(folder.resolve()):
        raise place.error(
            f"the {kind}'s file lies outside of the folder. Move it in, and write its path relative to it."
        )
    if not path.is_file():
        raise place.error(f"there is no such {kind} file. Copy it, or correct the path.", media=path)
    return path
