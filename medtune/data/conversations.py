"""Conversations of other training tools as questions: one picture or film, one question, one answer.

What medtune cannot ask is left out and counted: several turns (a later one would stand without the earlier ones),
several media, none, and preference data. Whose images they are is not said: all rows about one file are one patient.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from medtune.data.source import SourceTable
from medtune.data.types import MediaKind, MediaRef, Question

PLACEHOLDER = re.compile(r"[ \t]*<(image|video)>[ \t]*\n?")
KINDS: Mapping[str, MediaKind] = {"images": "image", "videos": "video"}
SYSTEM = "system"
PATIENT_UNIT = "a media file: these data sets name no patients, so that one patient's images may lie in two splits"


class Turn(NamedTuple):
    """One thing that was said; `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row.

    Attributes:
        media: (kind, path as written) of everything that it shows.
        id: Unique in the data set.
        where: File and line, for messages.
    """

    turns: Sequence[Turn]
    media: Sequence[tuple[MediaKind, str]]
    id: str
    where: str
    is_preference: bool = False
    split: str | None = None


@dataclass(slots=True)
class _Taken:
    questions: list[Question] = field(default_factory=list)
    media: dict[str, MediaRef] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


def conversation_table(conversations: Iterator[Conversation], folder: Path) -> SourceTable:
    """Returns the rows that one question about one media item can hold, and notes that count the others.

    The system turn and the user's words, without their placeholders, are the question; task is "conversation".

    Raises:
        FileNotFoundError: A media file is missing.
        ValueError: A path leaves the folder, or no row could be taken.
    """
    taken = _Taken()
    for row in conversations:
        why = _unfit(row)
        if why:
            taken.left_out[why] += 1
            continue
        kind, written = row.media[0]
        path = _inside(folder, written, row.where)
        user, assistant = (turn for turn in row.turns if turn.role != SYSTEM)
        before = [turn.text.strip() for turn in row.turns if turn.role == SYSTEM]
        text = "\n".join([*before, PLACEHOLDER.sub("", user.text).strip()]).strip()
        taken.media[written] = MediaRef(path, kind=kind)
        taken.questions.append(
            Question(
                id=row.id,
                media_id=written,
                text=text,
                options=(),
                answer=assistant.text.strip(),
                answer_kind="text",
                patient_id=written,
                facets={"task": "conversation"},
            )
        )
    if not taken.questions:
        raise ValueError(
            f"{folder}: no row has one picture or film, one question and one answer: {dict(taken.left_out)}."
        )
    notes = tuple(f"rows left out, {why}: {count}" for why, count in sorted(taken.left_out.items()))
    return SourceTable(tuple(taken.questions), taken.media, notes)


def json_rows(path: Path) -> Iterator[tuple[Mapping[str, object], str]]:
    """Yields the objects of a JSON list or of JSON lines, each with its place for messages.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is broken, or holds something else than objects.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file. Copy it beside the others.")
    text = path.read_text("utf-8-sig")
    try:
        if path.suffix == ".jsonl":
            lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
            found = [(json.loads(line), f"{path}, line {number}") for number, line in lines]
        else:
            found = [(each, f"{path}, row {number}") for number, each in enumerate(json.loads(text), 1)]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: broken JSON, or no list of rows ({error}).") from None
    for each, where in found:
        if not isinstance(each, dict):
            raise ValueError(f"{where}: wanted a JSON object, got {type(each).__name__}.")
        yield each, where


def said(value: object, where: str) -> str:
    """Returns a text of a row.

    Raises:
        ValueError: It is no text.
    """
    if not isinstance(value, str):
        raise ValueError(f"{where}: wanted a text, got {json.dumps(value)[:60]}.")
    return value


def listed_media(row: Mapping[str, object], names: Mapping[str, str], where: str) -> list[tuple[MediaKind, str]]:
    """Returns the media of a row; `names` gives the row's columns of images and videos.

    Raises:
        ValueError: A column holds no path, nor a list of them.
    """
    found: list[tuple[MediaKind, str]] = []
    for column, kind in KINDS.items():
        value = row.get(names.get(column, column))
        paths = value if isinstance(value, list) else [] if value is None else [value]
        # ms-swift also writes {"path": ...}, as the data sets of transformers do.
        found += [(kind, said(path.get("path") if isinstance(path, dict) else path, where)) for path in paths]
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


def _inside(folder: Path, written: str, where: str) -> Path:
    path = folder / written
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"{where}: the media file {written!r} lies outside {folder}. Move it in, and write its path relative to it."
        )
    if not path.is_file():
        raise FileNotFoundError(f"{where}: there is no media file {path}. Copy it, or correct the path.")
    return path
