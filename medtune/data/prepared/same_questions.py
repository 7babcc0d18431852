"""Finds questions that show nothing and are asked word for word several times, for splits that keep them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medtune.data.raw.source import SourceTable
from medtune.data.types import Question


def same_questions(table: SourceTable, questions: Sequence[Question]) -> Mapping[str, tuple[str, ...]]:
    """Returns for the media id of each question that shows nothing the media id of the first one that asks the same.

    Two questions ask the same if text, options in any order and earlier turns are equal but for case and spaces.
    Questions whose patient is known are left out: different patients may be asked the same.

    Args:
        table: The table of the source, in which a media id stands for the patient where none is known.
        questions: The same questions in the same order, under the ids that the result has.
    """
    first: dict[object, str] = {}
    found = {}
    for raw, question in zip(table.questions, questions, strict=True):
        if not table.media[raw.media_id] and raw.patient_id == raw.media_id:
            turns = tuple((_plain(turn.asked), _plain(turn.answer)) for turn in raw.turns)
            asked = (_plain(raw.text), tuple(sorted(map(_plain, raw.options))), turns)
            found[question.media_id] = (first.setdefault(asked, question.media_id),)
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
