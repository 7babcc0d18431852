"""Checks, limits, sorts and counts the questions of a source on their way into a prepared folder."""

import hashlib
import hmac
import os
import secrets
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medtune.data.kept_rows import KeptRows, repeated
from medtune.data.prepared.splits import answer_label, split_evenly
from medtune.data.raw.source import Broken, Reject, SourceTable
from medtune.data.seeding import stable_order
from medtune.data.types import MEDIA_MARK, SPLITS, Question, Split

KEY_BYTES = 32
HASH_HEX = 16
ROWS = 50_000
"""The number of questions that are written at once, because all columns of 800,000 would take another gigabyte."""


def key_path() -> Path:
    """Returns the path of the patient key: $XDG_CONFIG_HOME/medtune/patient_key, by default under ~/.config."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "medtune" / "patient_key"


def patient_key() -> bytes:
    """Returns the user's secret patient key of 32 bytes; creates it on first use, readable only by the user."""
    path = key_path()
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        _create(path)
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"{path}: wanted a patient key of {KEY_BYTES} bytes, it has {len(key)}. Restore it, or delete it: then "
            "patients get new hashes in everything that is prepared from now on."
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError(f"{path}: others may read the patient key. Run: chmod 600 {path}")
    return key


def hashed_patient(key: bytes, source: str, patient: str) -> str:
    """Returns 16 hex digits that stand for a patient: HMAC-SHA256 over the source's name and the patient's id."""
    return hmac.new(key, f"{source}\0{patient}".encode(), hashlib.sha256).hexdigest()[:HASH_HEX]


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never replaces the key that another process made meanwhile.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()


class ReducedTable(NamedTuple):
    """A source's table without some of its questions, and a reject for each question that was removed."""

    table: SourceTable
    lost: tuple[Reject, ...]


def check_table(name: str, table: SourceTable) -> SourceTable:
    """Returns the source's table with only the media that its questions use, after checking its ids.

    Questions whose text marks the places of more or fewer items than are shown become rejects.
    """
    if not table.questions:
        raise ValueError(f"the source {name!r} found no questions in this folder. Check --from.")
    if repeated(table.questions, lambda question: question.id):
        raise ValueError(f"the source {name!r} gives two questions one id. Correct the source.")
    patients: dict[str, str] = {}
    for question in table.questions:
        if question.media_id not in table.media:
            raise ValueError(f"the source {name!r} asks about media that it does not list. Correct the source.")
        if patients.setdefault(question.media_id, question.patient_id) != question.patient_id:
            raise ValueError(f"the source {name!r} gives one media item to two patients. Correct the source.")
    table, lost = _without_misplaced(replace(table, media={media_id: table.media[media_id] for media_id in patients}))
    return replace(table, rejects=(*table.rejects, *lost))


def _without_misplaced(table: SourceTable) -> ReducedTable:
    lost = []
    for number, question in enumerate(table.questions, start=1):
        marks = sum(text.count(MEDIA_MARK) for text in (*(turn.asked for turn in question.turns), question.text))
        items = len(table.media[question.media_id])
        if marks not in (0, items):
            reason = (
                f"wanted one place in the text for each media item, or none; got {marks} places for {items} items. The "
                "character U+FFFC (object replacement) is such a place: remove it from the text"
            )
            lost.append(Reject("questions", number, None, reason))
    if not lost:
        return ReducedTable(table, ())
    misplaced = {reject.row for reject in lost}
    kept = KeptRows(question for number, question in enumerate(table.questions, start=1) if number not in misplaced)
    return _reduced(table, kept, lost)


def _reduced(table: SourceTable, kept: Sequence[Question], lost: Sequence[Reject]) -> ReducedTable:
    if not kept:
        raise ValueError(f"no question can be taken. The first: {lost[0]}")
    used = {question.media_id for question in kept}
    media = {media_id: items for media_id, items in table.media.items() if media_id in used}
    return ReducedTable(replace(table, questions=kept, media=media), tuple(lost))


def limit_patients(table: SourceTable, limit: int | None, seed: int) -> SourceTable:
    """Returns the source's table with at most `limit` patients, chosen by seed so that every answer stays present."""
    if limit is None:
        return table
    # A split that the source brings must stay present as well as the answers.
    members: dict[str, set[str]] = {}
    for question in table.questions:
        members.setdefault(question.patient_id, set()).update((answer_label(question), f"in {question.split}"))
    if limit >= len(members):
        return table
    if limit < 1:
        raise ValueError(f"wanted a limit of at least 1 patient, got {limit}.")
    patients = stable_order(members, seed, "limit")
    labels = [frozenset(members[patient]) for patient in patients]
    numbers = split_evenly(labels, (limit, len(patients) - limit))
    kept = {patient for patient, number in zip(patients, numbers, strict=True) if number == 0}
    questions = KeptRows(question for question in table.questions if question.patient_id in kept)
    used = {question.media_id for question in questions}
    media = {media_id: items for media_id, items in table.media.items() if media_id in used}
    note = f"limit: {len(kept)} of {len(patients)} patients were taken"
    return replace(table, questions=questions, media=media, notes=(*table.notes, note))


def without_media(table: SourceTable, broken: Mapping[str, Broken]) -> ReducedTable:
    """Returns the source's table without the questions about broken media, and a reject for each of them."""
    if not broken:
        return ReducedTable(table, ())
    lost = tuple(
        Reject("", number, None, broken[question.media_id].reason, broken[question.media_id].path)
        for number, question in enumerate(table.questions, start=1)
        if question.media_id in broken
    )
    kept = KeptRows(question for question in table.questions if question.media_id not in broken)
    return _reduced(table, kept, lost)


def hash_patients(questions: Iterable[Question], source_name: str) -> dict[str, str]:
    """Returns the keyed hash by which a prepared folder names each of the source's patients."""
    key = patient_key()
    return {patient: hashed_patient(key, source_name, patient) for patient in {q.patient_id for q in questions}}


def sort_questions(questions: Iterable[Question], media_order: Sequence[str]) -> KeptRows[Question]:
    """Returns the questions of a prepared folder sorted by split, then by media item, then in the source's order."""
    place = {media_id: index for index, media_id in enumerate(media_order)}
    kept, places = KeptRows[Question](), array("q")
    for question in questions:
        kept.append(question)
        places.append(SPLITS.index(question.split or "test") * len(place) + place[question.media_id])
    return kept.chosen(np.argsort(np.frombuffer(places, np.int64), kind="stable"))


def count_questions(questions: Iterable[Question]) -> dict[Split, dict[str, int]]:
    """Returns the number of questions in a prepared folder by split and task."""
    tasks: dict[Split | None, Counter[str]] = {split: Counter() for split in SPLITS}
    for question in questions:
        tasks[question.split][question.facets.get("task", "")] += 1
    return {split: dict(sorted(tasks[split].items())) for split in SPLITS}


def count_patients(questions: Iterable[Question]) -> dict[Split, int]:
    """Returns the number of patients in a prepared folder by split."""
    patients = {(question.split, question.patient_id) for question in questions}
    return {split: sum(of == split for of, _ in patients) for split in SPLITS}
