"""What a classifier of words alone answers: question and options, no image, no position in any embedding.

Every option of a question is one row: is it the answer? Its features say which option it is, in which task, beside
which others, at which place, how long, and whether the question mentions it. The likeliest option is the answer. It is
fitted on other patients than it answers about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medtune.data.seeding import stable_order
from medtune.data.types import Question
from medtune.eval.statistics.calibration import option_probabilities

FOLDS = 5
MAX_QUESTIONS = 10_000
"""More are drawn, whole patients at a time, to keep the fit within a minute."""
INVERSE_PENALTY = 1.0
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class BlindAnswer:
    """What the words alone suggest.

    Attributes:
        share: How sure the classifier is among the options shown.
    """

    question: Question
    answer: str
    share: float


def blind_answers(questions: Sequence[Question], *, seed: int = 0) -> list[BlindAnswer]:
    """Returns what is answered blindly, each question by a classifier that saw no question of its patient.

    At most `MAX_QUESTIONS` are answered, in their order; none where there are fewer than two patients.

    Args:
        questions: With options.
        seed: Which patients share a fold, and which are drawn.

    Source:
        Blind baselines of visual question answering: Goyal et al. 2017, arXiv:1612.00837.
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
    sizes: dict[str, int] = {}
    for question in questions:
        sizes[question.patient_id] = sizes.get(question.patient_id, 0) + 1
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
