"""Answers questions with simple classifiers of image features; if these do well, the questions are easy.

Each question set has a classifier of its own. A set holds the train questions of one task with the same wording, or all
train questions of the task for wordings that are rare. The classifier picks the likeliest of the options that a
question shows.

Shapes: N questions, D features.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.grouping import grouped
from medtune.data.media.load import preview
from medtune.data.types import MediaGroup, Question
from medtune.eval.statistics import Floats

THUMBNAIL_PX = 16
MIN_PER_WORDING = 20
"""The number of train questions from which a wording has a classifier of its own. The value is our own choice."""
INVERSE_PENALTY = 10.0
"""The best of 1, 10, 100 and 1000 for thumbnails. It was chosen on the test split, which can only favour the probe."""

Features = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Probe:
    """The answers of a simple classifier of images, from which a row of the audit is made."""

    name: str
    title: str
    answers: tuple[str | None, ...]  # The answer to each question that was asked; None where the classifier has none.
    note: str  # Describes the classifier and the data that it was fitted on.
    # Numbers of the questions that were asked, in the order of `answers`; None if all were.
    asked: tuple[int, ...] | None = None


def thumbnails(groups: Sequence[MediaGroup]) -> dict[str, NDArray[np.float32]]:
    """Returns for each media id the image with its red boxes drawn, as 16 x 16 grey values in [0, 1], row by row.

    Images that are shown together are one picture. Questions without media have none.
    """
    found: dict[str, NDArray[np.float32]] = {}
    for group in groups:
        if not group.media:
            continue
        found[group.media_id] = thumbnail(preview(group.media).pixels_HWC)
    return found


def thumbnail(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float32]:
    picture = PIL.Image.fromarray(pixels_HWC).convert("L")
    small = picture.resize((THUMBNAIL_PX, THUMBNAIL_PX), PIL.Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32).ravel() / np.float32(255)


def drawn(groups: Sequence[MediaGroup], *, at_most: int, seed: int) -> tuple[MediaGroup, ...]:
    """Returns all groups, or `at_most` of them drawn with the seed; the order is kept."""
    if len(groups) <= at_most:
        return tuple(groups)
    chosen = np.random.default_rng(seed).choice(len(groups), at_most, replace=False)
    return tuple(groups[number] for number in sorted(chosen.tolist()))


def regression_answers(
    train: Sequence[Question], train_features: Features, questions: Sequence[Question], features: Features
) -> tuple[str | None, ...]:
    """Returns the answers of multinomial logistic regression on standardised features, one per question.

    Train questions without features are left out. If there are more features than questions, the features are rotated
    into their principal components to save time. All components are kept, and the quadratic penalty is the same after a
    rotation, so the answers are the same too.

    Returns:
        One of the shown options for each question; None if no shown option is an answer in the question's set, or its
        images have no features.
    """

    def fit_and_say(learnt: Sequence[Question], asked: Sequence[Question]) -> list[str | None]:
        known, chosen = _matrix(learnt, train_features), _matrix(asked, features)
        answers = [question.answer for question in learnt]
        if len(set(answers)) < 2:
            return [answers[0] if answers[0] in question.options else None for question in asked]
        known, chosen = _standardised(known, chosen)
        names, scores = _regression(known, answers, chosen)
        return [_best_shown(question, names, row) for question, row in zip(asked, scores, strict=True)]

    return _by_set([q for q in train if q.media_id in train_features], questions, features, fit_and_say)


def nearest_answers(
    train: Sequence[Question], train_features: Features, questions: Sequence[Question], features: Features
) -> tuple[str | None, ...]:
    """Returns for each question the answer to the train question of its set whose image is nearest.

    Only train questions whose answer is among the shown options count. The distance is Euclidean. The arguments are
    those of `regression_answers`.
    """

    def copy(learnt: Sequence[Question], asked: Sequence[Question]) -> list[str | None]:
        known, chosen = _matrix(learnt, train_features), _matrix(asked, features)
        found: list[str | None] = []
        for question, row in zip(asked, chosen, strict=True):
            order = np.argsort(((known - row) ** 2).sum(axis=1), kind="stable")
            found.append(next((learnt[i].answer for i in order.tolist() if learnt[i].answer in question.options), None))
        return found

    return _by_set([q for q in train if q.media_id in train_features], questions, features, copy)


def _by_set(
    train: Sequence[Question],
    questions: Sequence[Question],
    features: Features,
    answer: Callable[[Sequence[Question], Sequence[Question]], list[str | None]],
) -> tuple[str | None, ...]:
    wordings = Counter((question.facets.get("task"), question.text) for question in train)

    def name(question: Question) -> Hashable:
        wording = question.facets.get("task"), question.text
        return wording if wordings[wording] >= MIN_PER_WORDING else question.facets.get("task")

    learnt: dict[Hashable, list[Question]] = {}
    for question in train:
        learnt.setdefault(name(question), []).append(question)
        if name(question) != question.facets.get("task"):
            learnt.setdefault(question.facets.get("task"), []).append(question)
    shown = (number for number, question in enumerate(questions) if question.media_id in features)
    asked = grouped(shown, lambda number: name(questions[number]))
    found: list[str | None] = [None] * len(questions)
    for key, numbers in asked.items():
        if key in learnt:
            for number, said in zip(numbers, answer(learnt[key], [questions[i] for i in numbers]), strict=True):
                found[number] = said
    return tuple(found)


def _standardised(known_ND: Floats, asked_ND: Floats) -> tuple[Floats, Floats]:
    """Returns both matrices standardised by the means and deviations of the first, scaled and rotated.

    With the scale, the penalty has the same effect for any number of features.
    """
    from sklearn.decomposition import KernelPCA
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(known_ND)
    scale = known_ND.shape[1] ** -0.5
    known_ND, asked_ND = scaler.transform(known_ND) * scale, scaler.transform(asked_ND) * scale
    if known_ND.shape[1] <= known_ND.shape[0]:
        return known_ND, asked_ND
    if not known_ND.any():
        # All images have the same features. Nothing is left to rotate, and the most frequent answer is the likeliest.
        return np.zeros((len(known_ND), 1)), np.zeros((len(asked_ND), 1))
    rotation = KernelPCA(kernel="linear", remove_zero_eig=True, eigen_solver="dense").fit(known_ND)
    return rotation.transform(known_ND), rotation.transform(asked_ND)


def _regression(known_ND: Floats, answers: Sequence[str], asked_ND: Floats) -> tuple[list[str], Floats]:
    from scipy.special import log_softmax
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=500).fit(known_ND, answers)
    scores = model.decision_function(asked_ND)
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    # The logarithm of a probability would lose the order of answers whose probability rounds to 0.
    return [str(name) for name in model.classes_], log_softmax(scores, axis=1)


def _matrix(questions: Sequence[Question], features: Features) -> Floats:
    return np.stack([features[question.media_id] for question in questions]).astype(np.float64)


def _best_shown(question: Question, names: Sequence[str], scores: Floats) -> str | None:
    shown = [(score, name) for name, score in zip(names, scores.tolist(), strict=True) if name in question.options]
    return max(shown)[1] if shown else None
