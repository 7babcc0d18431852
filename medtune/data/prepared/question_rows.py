"""Checks, limits, sorts and counts the questions of a source on their way into a prepared folder."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from medtune.data.prepared.copy_media import Broken
from medtune.data.prepared.even_split import split_evenly
from medtune.data.prepared.privacy import hashed_patient, patient_key
from medtune.data.prepared.splits import answer_labels
from medtune.data.raw.row_errors import Reject
from medtune.data.raw.source import SourceTable
from medtune.data.seeding import stable_order
from medtune.data.types import MEDIA_MARK, SPLITS, Question, Split


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
    if len({question.id for question in table.questions}) < len(table.questions):
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
                f"character U+FFFC (object replacement) is such a place: remove it from the text '{question.text[:40]}'"
            )
            lost.append(Reject("questions", number, None, reason))
    if not lost:
        return ReducedTable(table, ())
    misplaced = {reject.row for reject in lost}
    kept = tuple(question for number, question in enumerate(table.questions, start=1) if number not in misplaced)
    return _reduced(table, kept, lost)


def _reduced(table: SourceTable, kept: Sequence[Question], lost: Sequence[Reject]) -> ReducedTable:
    if not kept:
        raise ValueError(f"no question can be taken. The first: {lost[0]}")
    used = {question.media_id for question in kept}
    media = {media_id: items for media_id, items in table.media.items() if media_id in used}
    return ReducedTable(replace(table, questions=kept, media=media), tuple(lost))


def limit_patients(table: SourceTable, limit: int | None, seed: int) -> SourceTable:
    """Returns the source's table with at most `limit` patients, chosen by seed so that every answer stays present."""
    members: dict[str, list[Question]] = {}
    for question in table.questions:
        members.setdefault(question.patient_id, []).append(question)
    if limit is None or limit >= len(members):
        return table
    if limit < 1:
        raise ValueError(f"wanted a limit of at least 1 patient, got {limit}.")
    patients = stable_order(members, seed, "limit")
    # A split that the source brings must stay present as well as the answers.
    labels = [answer_labels(members[patient]) | {f"in {q.split}" for q in members[patient]} for patient in patients]
    numbers = split_evenly(labels, (limit, len(patients) - limit))
    kept = {patient for patient, number in zip(patients, numbers, strict=True) if number == 0}
    questions = tuple(question for question in table.questions if question.patient_id in kept)
    used = {question.media_id for question in questions}
    media = {media_id: items for media_id, items in table.media.items() if media_id in used}
    note = f"limit: {len(kept)} of {len(patients)} patients were taken"
    return replace(table, questions=questions, media=media, notes=(*table.notes, note))


def without_media(table: SourceTable, broken: Mapping[str, Broken]) -> ReducedTable:
    """Returns the source's table without the questions about broken media, and a reject for each of them.

    Args:
        table: The table of the source.
        broken: For each media id whose files could not be copied, the item that could not be and why.
    """
    if not broken:
        return ReducedTable(table, ())
    lost = tuple(
        Reject("", number, None, broken[question.media_id].reason, broken[question.media_id].path)
        for number, question in enumerate(table.questions, start=1)
        if question.media_id in broken
    )
    kept = tuple(question for question in table.questions if question.media_id not in broken)
    return _reduced(table, kept, lost)


def hash_patients(questions: Iterable[Question], source_name: str) -> dict[str, str]:
    """Returns the keyed hash by which a prepared folder names each of the source's patients."""
    key = patient_key()
    return {patient: hashed_patient(key, source_name, patient) for patient in {q.patient_id for q in questions}}


def sort_questions(questions: Sequence[Question], media_order: Sequence[str]) -> list[Question]:
    """Returns the questions of a prepared folder sorted by split, then by media item, then in the source's order."""
    place = {media_id: index for index, media_id in enumerate(media_order)}
    return sorted(questions, key=lambda row: (SPLITS.index(row.split or "test"), place[row.media_id]))


def count_questions(questions: Sequence[Question]) -> dict[Split, dict[str, int]]:
    """Returns the number of questions in a prepared folder by split and task."""
    tasks = {split: Counter(q.facets.get("task", "") for q in questions if q.split == split) for split in SPLITS}
    return {split: dict(sorted(counter.items())) for split, counter in tasks.items()}


def count_patients(questions: Sequence[Question]) -> dict[Split, int]:
    """Returns the number of patients in a prepared folder by split."""
    return {split: len({q.patient_id for q in questions if q.split == split}) for split in SPLITS}
