"""Matches the rows of another tool's prediction file with questions, by ids or by the order of the raw files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase

from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.predictions.tool_files import ToolRow

AnswerIn = Callable[[Mapping[str, str], Question], str | None]
_ID_FIELDS = ("question_id", "qid", "id", "index", "doc_id")
_TRUTHS = ("answer", "target", "correct_option", "class_label", "classes", "class", "label", "groundtruth")


def match_rows(
    rows: Sequence[ToolRow],
    questions: Sequence[Question],
    *,
    find: Callable[[str], str | None],
    places: Mapping[str, int],
    answer_in: AnswerIn | None = None,
) -> list[Prediction]:
    """Returns the rows of another tool's file as predictions for the questions that they answer.

    A field that names a question in every row is used: by our own id, or by the id of the row in the raw files. If
    there is no such field and there are as many rows as questions, the rows are taken in the order of the raw files,
    after checking that the true answers in the rows agree with those of the questions.

    Args:
        rows: The rows of one file.
        questions: The questions that the file may answer.
        find: A function from the id of a raw row to the id of its question.
        places: The number of each question in the order of the raw files.
        answer_in: A function of the source that reads the true answer of a row; columns with usual names are tried too.

    Raises:
        ValueError: No field names the questions and the order does not fit, or two rows answer one question.
    """
    ids = {question.id for question in questions}
    others = sorted({name for row in rows for name in row.fields} - set(_ID_FIELDS))
    for name in (*_ID_FIELDS, *others):
        values = [row.fields.get(name, "") for row in rows]
        if len(set(values)) < len(values) or not all(values):
            continue
        found = [value if value in ids else find(value) for value in values]
        if all(each in ids for each in found):
            return _predictions(rows, [each for each in found if each], questions)
    return _predictions(rows, _by_order(rows, questions, places, answer_in), questions)


def _by_order(
    rows: Sequence[ToolRow], questions: Sequence[Question], places: Mapping[str, int], answer_in: AnswerIn | None
) -> list[str]:
    first = rows[0].where if rows else "the file"
    wanted = f"no field of {first} names a question in every row ({', '.join(_ID_FIELDS)}, ...)"
    if len(rows) != len(questions):
        raise ValueError(
            f"{wanted}, and {len(rows)} rows cannot be {len(questions)} questions in their order. Give the part of the "
            "questions that the file answers with --only FACET=VALUE, or a column question_id"
        )
    ordered = sorted(questions, key=lambda question: places[question.id])
    column = next((name for name in _TRUTHS if all(row.fields.get(name) for row in rows)), None)
    for row, question in zip(rows, ordered, strict=True):
        truth = answer_in(row.fields, question) if answer_in else None
        if truth is None and column:
            truth = row.fields[column]
        if truth is None:
            raise ValueError(
                f"{wanted}, and no column has the true answers ({', '.join(_TRUTHS)}) to check their order by"
            )
        if not _agrees(truth, row, question):
            raise ValueError(
                f"{wanted}, and they are not in the order of the benchmark's files: {row.where} has the answer "
                f"{truth!r}, the question there has {question.answer!r}"
            )
    return [question.id for question in ordered]


def _agrees(said: str, row: ToolRow, question: Question) -> bool:
    """Returns whether a stated true answer is that of the question: its words, its number or an option's letter."""
    answer = said.strip().strip("[]'\"")
    if len(answer) == 1 and answer in ascii_uppercase[: len(row.options)]:
        answer = row.options[ascii_uppercase.index(answer)]
    if question.answer_kind == "number":
        try:
            return abs(float(answer) - float(question.answer)) <= 1e-6 * abs(float(question.answer))
        except ValueError:
            return False
    return answer.strip().casefold() == question.answer.casefold()


def _shown(row: ToolRow, question: Question) -> tuple[str, ...]:
    """Returns the question's options in the order that the tool showed, so that letters in replies can be read."""
    own = {option.strip().casefold(): option for option in question.options}
    found = tuple(own.get(option.strip().casefold(), "") for option in row.options)
    return found if set(found) == set(question.options) and len(found) == len(question.options) else ()


def _predictions(rows: Sequence[ToolRow], ids: Sequence[str], questions: Sequence[Question]) -> list[Prediction]:
    asked = {question.id: question for question in questions}
    first: dict[str, str] = {}
    for row, id_ in zip(rows, ids, strict=True):
        if first.setdefault(id_, row.where) != row.where:
            raise ValueError(f"{row.where} and {first[id_]} answer one question; keep one of the two")
    return [
        Prediction(PredictionKey(id_, "image", "generation", repeat), options_shown=_shown(row, asked[id_]), text=text)
        for row, id_ in zip(rows, ids, strict=True)
        for repeat, text in enumerate(row.replies)
    ]
