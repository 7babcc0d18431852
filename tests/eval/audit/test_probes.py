import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from medtune.data.types import Question
from medtune.eval.audit.probes import regression_answers

PLANES = ("abdomen", "femur", "head")


def _question(number: int, answer: str, options: tuple[str, ...] = PLANES, *, text: str = "Plane?") -> Question:
    return Question(f"q{number}", f"m{number}", text, options, answer, "choice", f"p{number}", facets={"task": "t"})


def _place(along: float) -> NDArray[np.float32]:
    return np.array([along], dtype=np.float32)


@pytest.mark.parametrize("planes", [PLANES, ("head", "femur", "abdomen")])
def test_answers_too_unlikely_for_a_probability_keep_their_order(planes: tuple[str, ...]) -> None:
    far, near, _ = planes
    known = [_question(number, planes[number % 3]) for number in range(60)]
    features = {question.media_id: _place(planes.index(question.answer) - 1) for question in known}
    # The point is so far away that both shown answers have the probability 0. The nearer one is still the likelier one.
    asked = _question(100, near, (far, near))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_answers(known, features, [asked], {asked.media_id: _place(1e5)})
    assert found == (near,)


def test_two_answers_are_told_apart_however_far_out_the_image_is() -> None:
    known = [_question(number, PLANES[number % 2], PLANES[:2]) for number in range(60)]
    features = {question.media_id: _place(PLANES.index(question.answer)) for question in known}
    asked = [_question(100 + side, PLANES[side], PLANES[:2]) for side in (0, 1)]
    places = {"m100": _place(-1e5), "m101": _place(1e5)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert regression_answers(known, features, asked, places) == PLANES[:2]


def test_features_that_are_the_same_for_every_image_leave_the_most_frequent_answer() -> None:
    known = [_question(number, PLANES[number % 3 == 0]) for number in range(9)]
    features = {question.media_id: np.full(20, 0.5, dtype=np.float32) for question in known}
    asked = _question(99, PLANES[1])
    found = regression_answers(known, features, [asked], {asked.media_id: np.full(20, 0.5, dtype=np.float32)})
    assert found == (PLANES[0],)
