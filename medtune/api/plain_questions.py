"""Turns plain true answers, in a list or by id, into questions that can be scored."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from medtune.benchmarks import own_question
from medtune.data.catalog import nearest
from medtune.data.raw.source import RowError
from medtune.data.types import Prediction, PredictionKey, Question

Truths = Iterable[str] | Mapping[str, str]
"""The true answers, in order or by the question's id."""
Options = Iterable[Sequence[str]] | Mapping[str, Sequence[str]]
"""The options of each question, in the form of the true answers; an empty list for a question without options."""
_Value = TypeVar("_Value")

Answers = Iterable[str] | Mapping[str, str] | Iterable[Prediction]
"""The replies, in the order of the questions or by the question's id; or predictions, which carry the ids."""


def plain_questions(truths: Truths, *, patients: Truths | None, options: Options | None) -> tuple[Question, ...]:
    """Returns one question for each true answer, with the id of a mapping, or its place in a list, counted from 0.

    What kind of question it is follows from the answer and the options as in a table of `medtune prepare`: one of its
    options or their letter, yes or no, a number, or free text.

    Raises:
        TypeError: An answer or a patient is no text, or a list is a single text.
        ValueError: Lists differ in length, ids differ, or a true answer is empty or not among its options.
    """
    answers = texts_by_id(truths, what="truths")
    if not answers:
        raise ValueError("truths: there are none; give the true answer of each question")
    whose = {id_: f"question {id_}" for id_ in answers}
    if patients is not None:
        whose = matched(texts_by_id(patients, what="patients"), answers, what="patients")
    listed = {id_: tuple[str, ...]() for id_ in answers}
    if options is not None:
        listed = matched(_options(options), answers, what="options")
    return tuple(_question(id_, answer, listed[id_], whose[id_]) for id_, answer in answers.items())


def texts_by_id(given: Iterable[object] | Mapping[str, object], *, what: str) -> dict[str, str]:
    """Returns texts by the question's id; those of a list have their places as ids.

    Raises:
        TypeError: A value is no text, or the whole is one text or a set.
        ValueError: Two ids are the same as texts.
    """
    if isinstance(given, str):
        raise TypeError(f"{what}: got one text, {given!r:.60}; wanted a list of texts, or a dict of texts by id")
    refuse_table(given, what=what)
    if isinstance(given, set | frozenset):
        raise TypeError(f"{what}: a set has no order; wanted a list of texts, or a dict of texts by id")
    found = list(given.items() if isinstance(given, Mapping) else enumerate(given))
    for place, value in found:
        if isinstance(value, Question):
            raise TypeError(f"{what}: got a list of questions; give data.test of a loaded folder, or a part of it")
        if not isinstance(value, str):
            raise TypeError(f"{what}: {_described(value)} at {place!r}; wanted a text. {_advice(value)}")
    texts = {str(place): str(value) for place, value in found}
    if len(texts) < len(found):
        raise ValueError(f"{what}: two ids are the same as texts, such as 1 and '1'; ids have to be unique")
    return texts


def refuse_table(given: object, *, what: str) -> None:
    """Refuses a whole table, of which Python would take the names of the columns for the texts.

    Raises:
        TypeError: It is a DataFrame.
    """
    if type(given).__name__ == "DataFrame":
        raise TypeError(
            f"{what}: got a DataFrame, of which a column is wanted: give frame[NAME], or a dict of texts by id with "
            "dict(zip(frame[ID], frame[NAME]))"
        )


def matched(given: dict[str, _Value], by_id: Mapping[str, object], *, what: str) -> dict[str, _Value]:
    """Returns the values, which have to be there for each question and for no other.

    Raises:
        ValueError: Their number or their ids differ from those of the questions.
    """
    if len(given) != len(by_id):
        raise ValueError(f"{what}: {len(given)} for {len(by_id)} questions; wanted one for each")
    for id_ in given:
        refuse_unknown(id_, by_id, what=what)
    return given


def refuse_unknown(id_: str, known: Mapping[str, object], *, what: str) -> None:
    """Refuses an id that no question has.

    Raises:
        ValueError: There is no such question; the message names the most similar id.
    """
    if id_ not in known:
        raise ValueError(f"{what}: no question has the id {id_!r}.{nearest(id_, known)}")


def plain_hash(questions: Iterable[Question]) -> str:
    """Returns a SHA-256 over plain questions, which tells whether two evaluations are about the same ones."""
    rows = [[q.id, q.answer, q.options, q.patient_id] for q in questions]
    return hashlib.sha256(json.dumps(rows).encode("ascii")).hexdigest()


def _options(given: Options) -> dict[str, tuple[str, ...]]:
    refuse_table(given, what="options")
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    found = {}
    for place, each in pairs:
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise TypeError(
                f"options: got {each!r:.60} at {place!r}; wanted a list of the question's options, [] for none"
            )
        found[str(place)] = tuple(texts_by_id(each, what=f"options of {place!r}").values())
    return found


def _question(id_: str, answer: str, options: tuple[str, ...], patient: str) -> Question:
    try:
        return own_question(id_, answer=answer, options=options, patient_id=patient)
    except RowError as error:
        raise ValueError(f"truths: at {id_!r} {error.reject.reason}") from None


def _described(value: object) -> str:
    return "NaN" if _is_missing(value) else f"{value!r:.60} ({type(value).__name__})"


def _advice(value: object) -> str:
    if value is None or _is_missing(value):
        return 'A question without an answer is "" (with pandas: column.fillna(""))'
    return "Turn numbers and labels into the words that stand for them, e.g. with str(value)"


def _is_missing(value: object) -> bool:
    """Returns whether a value is NaN, or what pandas puts in place of a missing text or time."""
    return (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def given_predictions(answers: Answers, questions: Sequence[Question]) -> list[Prediction]:
    """Returns a prediction for each answer. A question that a dict leaves out stays unanswered and counts as wrong.

    Raises:
        TypeError: An answer is no text.
        ValueError: A list has another length than the questions, an id is unknown, or a question is answered twice.
    """
    by_id = {question.id: question for question in questions}
    if len(by_id) < len(questions):
        twice, _ = Counter(question.id for question in questions).most_common(1)[0]
        raise ValueError(f"two questions have the id {twice!r}; ids have to be unique")
    if isinstance(answers, Mapping):
        texts = texts_by_id(answers, what="answers")
        for id_ in texts:
            refuse_unknown(id_, by_id, what="answers")
        return [_prediction(id_, text) for id_, text in texts.items()]
    refuse_table(answers, what="answers")
    if isinstance(answers, str):
        raise TypeError(f"answers: got one text, {answers!r:.60}; wanted a list of texts, or a dict of texts by id")
    if isinstance(answers, set | frozenset):
        raise TypeError("answers: a set has no order; wanted a list of texts, or a dict of texts by id")
    found: list[object] = list(answers)
    predictions = [each for each in found if isinstance(each, Prediction)]
    if predictions and len(predictions) == len(found):
        return _checked(predictions, by_id)
    texts = texts_by_id(found, what="answers")
    if len(texts) != len(questions):
        raise ValueError(
            f"answers: {len(texts)} for {len(questions)} questions; wanted one for each, in their order, or a dict of "
            "answers by the question's id"
        )
    return [_prediction(question.id, text) for question, text in zip(questions, texts.values(), strict=True)]


def _checked(predictions: list[Prediction], by_id: Mapping[str, Question]) -> list[Prediction]:
    seen = set[PredictionKey]()
    for each in predictions:
        refuse_unknown(each.key.question_id, by_id, what="answers")
        if each.key in seen:
            raise ValueError(
                f"answers: the question {each.key.question_id!r} is answered twice; number them as repeats"
            )
        seen.add(each.key)
    return predictions


def _prediction(id_: str, text: str) -> Prediction:
    return Prediction(PredictionKey(id_, "image", "generation", 0), text=text)
