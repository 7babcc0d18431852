import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from medtune.eval.scoring import answer_classes as module
from medtune.eval.scoring.answer_classes import roc_area, roc_area_interval
from medtune.eval.statistics import cluster_codes
from medtune.eval.statistics.intervals import wilson

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40).filter(
    lambda pairs: len({true for _, true in pairs}) == 2
)


@given(PAIRS)
def test_area_equals_sklearn_with_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, is_true = [score / 5 for score, _ in pairs], [true for _, true in pairs]
    assert roc_area(scores, is_true).value() == pytest.approx(roc_auc_score(is_true, scores), abs=1e-12)


def test_area_without_a_patient_equals_sklearn() -> None:
    rng = np.random.default_rng(3)
    patients = [f"p{number // 3}" for number in range(60)]
    is_true = rng.random(60) < 0.4
    scores = np.round(rng.normal(size=60) + is_true, 1)
    codes = cluster_codes(patients)
    found = roc_area(scores, is_true.tolist()).without(codes, np.arange(20))
    expected = [roc_auc_score(is_true[codes != patient], scores[codes != patient]) for patient in range(20)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_area_of_one_side_alone_has_no_value() -> None:
    assert math.isnan(roc_area([0.1, 0.9], [True, True]).value())


def test_few_patients_on_one_side_give_a_wide_interval() -> None:
    patients = [f"p{number}" for number in range(100)]
    is_true = [number == 0 for number in range(100)]
    scores = [1.0, *np.linspace(0, 0.5, 99).tolist()]
    assert roc_area_interval(scores, is_true, patients) == wilson(1, 1)
    many = [number < 50 for number in range(100)]
    low, high = roc_area_interval(np.linspace(1, 0, 100).tolist(), many, patients)
    assert (low > 0.9, high) == (True, 1.0)


def test_many_scores_are_joined_without_moving_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    is_true = [bool(flag) for flag in rng.random(1500) < 0.3]
    scores, patients = (rng.normal(size=1500) + is_true).tolist(), [f"p{number // 10}" for number in range(1500)]
    joined = roc_area_interval(scores, is_true, patients)
    monkeypatch.setattr(module, "MAX_LEVELS", 2000)
    assert joined == pytest.approx(roc_area_interval(scores, is_true, patients), abs=0.0005)


@pytest.mark.slow
@pytest.mark.parametrize(("patients", "questions"), [(12, 4), (40, 5), (150, 2)])
def test_interval_covers_the_area_of_questions_that_are_alike_within_a_patient(patients: int, questions: int) -> None:
    """Scores of a patient share a part; the true area of two normals at distance 1 is 0.760."""
    rng, covered, rounds = np.random.default_rng(patients), 0, 400
    names = [f"p{number // questions}" for number in range(patients * questions)]
    truth = 0.5 * (1 + math.erf(1 / 2))
    for _ in range(rounds):
        is_true = rng.random(len(names)) < 0.4
        shared = np.repeat(rng.normal(size=patients), questions)
        scores = is_true + math.sqrt(0.5) * shared + math.sqrt(0.5) * rng.normal(size=len(names))
        low, high = roc_area_interval(scores.tolist(), is_true.tolist(), names)
        covered += low <= truth <= high
    assert 0.92 <= covered / rounds <= 0.99
