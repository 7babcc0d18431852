"""Turns the answers that a user has, as texts or predictions, into predictions about questions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from medtune.api.plain_questions import refuse_table, refuse_unknown, texts_by_id
from medtune.data.types import Prediction, PredictionKey, Question

Answers = Iterable[str] | Mapping[str, str] | Iterable[Prediction]
"""The replies, in the order of the questions or by the question's id; or predictions, which carry the ids."""


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
