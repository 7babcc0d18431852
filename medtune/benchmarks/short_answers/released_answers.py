"""Turns the answers of released tables into those of questions: yes or no with its options, and short texts.

Cells are brought into one form first: numbers become texts, and tabs, line breaks and repeated blanks a single blank.
How many cells this changed is counted. What a cell held stays with the question, for the rules of other kits.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.files import json_file
from medtune.data.raw.source import Missing, Place, Reject, SourceTable
from medtune.data.types import AnswerKind, MediaRef, Question, Split

YES_NO, CLOSED, OPEN = "yes_no", "closed", "open"
"""The tasks: a question that is answered by yes or no, another closed one, and an open one."""
RELEASED = "answer"
"""The name under which `Question.printed` holds the answer as the release has it."""
_WORDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("yes", "no"), ("yes", "no")),
    **dict.fromkeys(("是", "否"), ("是", "否")),
    **dict.fromkeys(("是的", "不是"), ("是的", "不是")),
    **dict.fromkeys(("有", "没有"), ("有", "没有")),
    **dict.fromkeys(("包含", "不包含"), ("包含", "不包含")),
    **dict.fromkeys(("包括", "不包括"), ("包括", "不包括")),
    **dict.fromkeys(("可以", "不可以"), ("可以", "不可以")),
    **dict.fromkeys(("存在", "不存在"), ("存在", "不存在")),
    **dict.fromkeys(("正常", "不正常"), ("正常", "不正常")),
    **dict.fromkeys(("健康", "不健康"), ("健康", "不健康")),
}
"""The two answers of a yes/no question, yes first, by either of them in small letters.

Source: the closed questions of SLAKE 1.0 in English and Chinese, and of VQA-RAD.
"""


class ReleasedAnswer(NamedTuple):
    text: str  # The answer; "yes" or "no" in small letters.
    options: tuple[str, ...]  # The two answers of a yes/no question; empty for a text.
    task: str
    kind: AnswerKind


def tidy(cell: object) -> str:
    r"""Returns a cell as a text without blanks at its ends and with single blanks inside.

    >>> tidy("Skull \tcartilage "), tidy(2), tidy(None)
    ('Skull cartilage', '2', '')
    """
    return "" if cell is None else " ".join(str(cell).split())


def released_answer(cell: object, *, is_closed: bool | None, place: Place, field: str = "answer") -> ReleasedAnswer:
    """Returns the answer of a table's cell.

    Args:
        is_closed: Whether the release calls the question closed; None where it does not say, so that yes and no alone
            are closed.
        field: The name of the cell's column.

    >>> released_answer("Yes ", is_closed=True, place=Place("test.json", 1)).options
    ('yes', 'no')
    >>> released_answer("Left", is_closed=True, place=Place("test.json", 1)).task
    'closed'
    """
    if not isinstance(cell, str | int | float) or isinstance(cell, bool) or not tidy(cell):
        raise place.error(f"wanted a text or a number, got {str(cell)[:40]!r}.", field=field)
    text = tidy(cell)
    options = _WORDS.get(text.lower(), ())
    if is_closed is not False and options:
        return ReleasedAnswer(text.lower(), options, YES_NO, "yes_no")
    return ReleasedAnswer(text, (), CLOSED if is_closed else OPEN, "text")


def truth_as_released(question: Question) -> str:
    """Returns the true answer as the release has it, with its capitals and blanks."""
    return question.printed.get(RELEASED, question.answer)


def is_released_as_closed(question: Question) -> bool:
    return question.facets["task"] != OPEN


def is_released_as_open(question: Question) -> bool:
    return not is_released_as_closed(question)


def is_chinese(question: Question) -> bool:
    return any("一" <= character <= "鿿" for character in question.text)


class ReleasedRow(NamedTuple):
    """A row of a released file, its place for error messages, and the split that the release puts it in."""

    place: Place
    cells: Mapping[str, object]
    split: Split

    def text(self, column: str) -> str:
        """Returns a cell that has to hold a text, without surplus blanks."""
        if column not in self.cells:
            raise self.place.error(f"there is no such column, only {', '.join(sorted(self.cells))}.", field=column)
        value = self.cells[column]
        if not isinstance(value, str) or not value.strip():
            raise self.place.error(f"wanted a text, got {json.dumps(value)[:60]}.", field=column)
        return " ".join(value.split())


def released_rows(path: Path, split: Split) -> list[ReleasedRow]:
    """Returns the rows of a JSON list of objects; a row that is no object has no cells."""
    return [
        ReleasedRow(Place(path.name, number), cells if isinstance(cells, dict) else {}, split)
        for number, cells in enumerate(json_file(path, list, "a JSON list of rows"), start=1)
    ]


class ReleasedQuestion(NamedTuple):
    """A question with its image, and how many cells of its row were repaired."""

    question: Question
    media: MediaRef
    repairs: int


def asked(
    cell: object,
    *,
    is_closed: bool | None,
    text: str,
    image: str,
    path: Path,
    facets: Mapping[str, str],
    place: Place,
    split: Split,
    field: str = "answer",
    part: str = "",
) -> ReleasedQuestion:
    """Returns the question of a row, or of a part of it, whose answer is a cell; its image stands for the patient."""
    answer = released_answer(cell, is_closed=is_closed, place=place, field=field)
    question = Question(
        id=f"{place.file}, row {place.row}{part}",
        media_id=image,
        text=text,
        options=answer.options,
        answer=answer.text,
        answer_kind=answer.kind,
        patient_id=image,
        facets={"task": answer.task, **facets},
        split=split,
        printed={RELEASED: str(cell)},
    )
    return ReleasedQuestion(question, MediaRef(path), int(cell != tidy(cell)))


def answer_table(
    found: Sequence[ReleasedQuestion],
    notes: Iterable[str],
    rejects: Iterable[Reject],
    missing: tuple[Missing, ...] = (),
    *,
    repaired: str = "answers repaired (numbers as texts, tabs and blanks)",
) -> SourceTable:
    """Returns the table of a release; where cells were repaired, a note says how many and of what."""
    repairs = sum(each.repairs for each in found)
    return SourceTable(
        [each.question for each in found],
        {each.question.media_id: (each.media,) for each in found},
        (*notes, *([f"{repaired}: {repairs}"] if repairs else ())),
        tuple(rejects),
        missing,
        stands_for_patient="image",
    )
