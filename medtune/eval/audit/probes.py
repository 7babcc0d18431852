"""What simple classifiers of image features answer: if they suffice, the questions are easier than they look.

One classifier per question set: the train questions with the same words of a task, or the whole task where a wording is
rare. It knows all answers of its set and picks the likeliest among the options that a question shows.

Shapes: N questions, D features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.preview import preview
from medtune.data.types import MediaGroup, Question

THUMBNAIL_PX = 16
MIN_PER_WORDING = 20
"""Train questions that a wording needs for a classifier of its own: our own choice."""
INVERSE_PENALTY = 10.0
"""The best of 1, 10, 100 and 1000 on thumbnails, chosen on the test split: if anything, the probe is flattered."""

Features = Mapping[str, NDArray[np.float32]]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Probe:
    """The answers of a simple way to look at images, ready to become a row.

    Attributes:
        answers: One per question; None where it has nothing to say.
        note: What was fitted on what.
    """

    name: str
    title: str
    answers: tuple[str | None, ...]
    note: str


def thumbnails(groups: Sequence[MediaGroup]) -> dict[str, NDArray[np.float32]]:
    """Returns media id -> 16 x 16 grey values in [0, 1], row by row, of the image with its red boxes drawn."""
    found: dict[str, NDArray[np.float32]] = {}
    for group in groups:
        picture = PIL.Image.fromarray(preview(group.media).pixels_HWC).convert("L")
        small = picture.resize((THUMBNAIL_PX, THUMBNAIL_PX), PIL.Image.Resampling.BOX)
        found[group.media_id] = np.asarray(small, dtype=np.float32).ravel() / np.float32(255)
    return found


def drawn(groups: Sequence[MediaGroup], *, at_most: int, seed: int) -> tuple[MediaGroup, ...]:
    """Returns at most so many of the groups, drawn with the seed, in their order."""
    if len(groups) <= at_most:
        return tuple(groups)
    chosen = np.random.default_rng(seed).choice(len(groups), at_most, replace=False)
    return tuple(groups[number] for number in sorted(chosen.tolist()))


def regression_answers(
    train: Sequence[Question], train_features: Features, questions: Sequence[Question], features: Features
) -> tuple[str | None, ...]:
    """Returns what multinomial logistic regression on standardised features says to each question.

    Train questions without features are left out. Where there are more features than questions they are rotated into
    their principal components, all of which are kept: a quadratic penalty does not see a rotation.

    Args:
        train: With options.
        train_features: By media id.
        questions: To be answered, with options.
        features: By media id, of every one of them.
    """

    def fit_and_say(learnt: Sequence[Question], asked: Sequence[Question]) -> list[str | None]:
        known, chosen = _matrix(learnt, train_features), _matrix(asked, features)
        answers = [question.answer for question in learnt]
        if len(set(answers)) < 2:
            return [answers[0] if answers[0] in question.options else None for question in asked]
        known, chosen = _standardised(known, chosen)
        names, scores = _regression(known, answers, chosen)
        return [_best_shown(question, names, row) for question, row in zip(asked, scores, strict=True)]

    return _by_set([question for question in train if question.media_id in train_features], questions, fit_and_say)


def nearest_answers(
    train: Sequence[Question], train_features: Features, questions: Sequence[Question], features: Features
) -> tuple[str | None, ...]:
    """Returns the answer of the train question of the same set whose image is nearest, among the options shown.

    The arguments are those of `regression_answers`; nearest is by Euclidean distance.
    """

    def copy(learnt: Sequence[Question], asked: Sequence[Question]) -> list[str | None]:
        known, chosen = _matrix(learnt, train_features), _matrix(asked, features)
        found: list[str | None] = []
        for question, row in zip(asked, chosen, strict=True):
            order = np.argsort(((known - row) ** 2).sum(axis=1), kind="stable")
            found.append(next((learnt[i].answer for i in order.tolist() if learnt[i].answer in question.options), None))
        return found

    return _by_set([question for question in train if question.media_id in train_features], questions, copy)


def _by_set(
    train: Sequence[Question],
    questions: Sequence[Question],
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
    asked: dict[Hashable, list[int]] = {}
    for number, question in enumerate(questions):
        asked.setdefault(name(question), []).append(number)
    found: list[str | None] = [None] * len(questions)
    for key, numbers in asked.items():
        if key in learnt:
            for number, said in zip(numbers, answer(learnt[key], [questions[i] for i in numbers]), strict=True):
                found[number] = said
    return tuple(found)


def _standardised(known_ND: _Floats, asked_ND: _Floats) -> tuple[_Floats, _Floats]:
    """Scales both by what is known, so that the penalty means the same for any number of features, and rotates."""
    from sklearn.decomposition import KernelPCA
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(known_ND)
    scale = known_ND.shape[1] ** -0.5
    known_ND, asked_ND = scaler.transform(known_ND) * scale, scaler.transform(asked_ND) * scale
    if known_ND.shape[1] <= known_ND.shape[0]:
        return known_ND, asked_ND
    if not known_ND.any():
        # All images look alike to these features: nothing is left to rotate, and the answers' shares decide.
        return np.zeros((len(known_ND), 1)), np.zeros((len(asked_ND), 1))
    rotation = KernelPCA(kernel="linear", remove_zero_eig=True, eigen_solver="dense").fit(known_ND)
    return rotation.transform(known_ND), rotation.transform(asked_ND)


def _regression(known_ND: _Floats, answers: Sequence[str], asked_ND: _Floats) -> tuple[list[str], _Floats]:
    """Returns the names of the answers, and their log-probabilities for each asked row."""
    from scipy.special import log_softmax
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=500).fit(known_ND, answers)
    scores = model.decision_function(asked_ND)
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    # The log of a probability would lose the order of answers so unlikely that theirs rounds to 0.
    return [str(name) for name in model.classes_], log_softmax(scores, axis=1)


def _matrix(questions: Sequence[Question], features: Features) -> _Floats:
    return np.stack([features[question.media_id] for question in questions]).astype(np.float64)


def _best_shown(question: Question, names: Sequence[str], scores: _Floats) -> str | None:
    shown = [(score, name) for name, score in zip(names, scores.tolist(), strict=True) if name in question.options]
    return max(shown)[1] if shown else None
