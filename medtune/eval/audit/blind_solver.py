"""Answers questions from their words alone: the blind solver sees a question and its options, but no image.

It is a logistic regression with one row for each option of a question, which predicts whether this option is the
answer. The features of a row describe the option: its text, the task, the other options, its position, whether it is
the longest or the shortest, and whether the question mentions it. The answer to a question is its likeliest option.
Each question is answered by a classifier that was fitted on other patients.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medtune.data.seeding import stable_order
from medtune.data.types import Question
from medtune.eval.statistics.calibration import option_probabilities

FOLDS = 5
MAX_QUESTIONS = 10_000
"""The largest number of questions. Of more questions, whole patients are drawn, to fit in less than a minute."""
INVERSE_PENALTY = 1.0
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class BlindAnswer:
    """The answer that the classifier gives to one question."""

    question: Question
    answer: str
    share: float  # The probability of that option among the question's options, 0 to 1.


def blind_answers(questions: Sequence[Question], *, seed: int = 0) -> list[BlindAnswer]:
    """Returns the answers of a classifier that sees only words, in the order of the questions.

    Each question is answered by a classifier that was fitted without the questions about its patient. At most
    `MAX_QUESTIONS` questions are answered, and none if there are fewer than two patients.

    Source: Blind baselines of visual question answering: Goyal et al. 2017, arXiv:1612.00837.
    """
    from scipy.special import log_expit
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import LogisticRegression

    fold_of, chosen = _folds(questions, seed=seed)
    if len(set(fold_of.values())) < 2:
        return []
    rows = [(question, option) for question in chosen for option in question.options]
    matrix = FeatureHasher(n_features=2**18, alternate_sign=False).transform(_features(*row) for row in rows)
    is_answer = np.array([option == question.answer for question, option in rows])
    folds = np.array([fold_of[question.patient_id] for question, _ in rows])
    scores = np.zeros(len(rows))
    for fold in range(FOLDS):
        held = folds == fold
        if held.any() and len(set(is_answer[~held].tolist())) == 2:
            model = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear").fit(matrix[~held], is_answer[~held])
            scores[held] = log_expit(model.decision_function(matrix[held]))
    found, first = [], 0
    for question in chosen:
        shares = option_probabilities(scores[first : first + len(question.options)].tolist())
        first += len(question.options)
        best = shares.index(max(shares))
        found.append(BlindAnswer(question, question.options[best], shares[best]))
    return found


def _folds(questions: Sequence[Question], *, seed: int) -> tuple[dict[str, int], list[Question]]:
    sizes = Counter(question.patient_id for question in questions)
    fold_of: dict[str, int] = {}
    taken = 0
    for number, patient in enumerate(stable_order(sizes, seed, "blind")):
        if taken and taken + sizes[patient] > MAX_QUESTIONS:
            break
        taken += sizes[patient]
        fold_of[patient] = number % FOLDS
    return fold_of, [question for question in questions if question.patient_id in fold_of]


def _features(question: Question, option: str) -> dict[str, float]:
    task, lengths = question.facets.get("task", ""), [len(each) for each in question.options]
    asked, said = set(_WORD.findall(question.text.lower())), _WORD.findall(option.lower())
    names = [
        f"option={option}",
        f"task={task} option={option}",
        f"question={question.text} option={option}",
        f"place={question.options.index(option)}",
        f"longest={len(option) == max(lengths)}",
        f"shortest={len(option) == min(lengths)}",
        f"mentioned={bool(asked & set(said))}",
        *(f"task={task} option={option} beside={other}" for other in question.options if other != option),
        *(f"word={word}" for word in said),
        *(f"asked={word} option={option}" for word in asked),
    ]
    return dict.fromkeys(names, 1.0)
