"""Tests that thresholds and sets of options hold what they promise for the questions of new patients."""

import math

import numpy as np
import pytest

from medtune.eval.statistics.calibration import answering_threshold, least_probability, patients_needed

Drawn = tuple[list[float], list[float], list[bool], list[str]]


def test_a_threshold_of_few_patients() -> None:
    confidence, is_wrong = [0.9, 0.8, 0.7, 0.6], [False, True, False, True]
    found = answering_threshold(confidence, is_wrong, ["a", "b", "c", "d"], rate=0.4)
    assert found is not None
    assert (found.confidence, found.answered) == (0.7, 0.75)
    assert found.wrong == pytest.approx(1 / 3)
    assert answering_threshold(confidence, is_wrong, ["a", "b", "c", "d"], rate=0.1) is None
    assert patients_needed(0.2) == 4
    nobody = answering_threshold([0.5, 0.5], [True, False], ["a", "b"], rate=0.4)
    assert nobody is not None
    assert (nobody.confidence, nobody.answered, nobody.wrong) == (math.inf, 0, 0)


def test_a_patient_counts_once_however_many_questions_there_are() -> None:
    shares, patients = [0.9, 0.8, 0.1, 0.1, 0.1], ["a", "b", "c", "c", "c"]
    assert least_probability(shares, patients, coverage=0.5) == 0.8
    assert least_probability(shares, patients, coverage=0.75) == 0.1
    assert least_probability(shares, patients, coverage=0.76) == 0.0


def _drawn(generator: np.random.Generator, number: int) -> Drawn:
    """Returns confidence, probability of the truth, errors and patients of an overconfident model."""
    confidence, true_share, is_wrong, patients = [], [], [], []
    for patient in range(number):
        hard = generator.normal(0.0, 1.0)
        for _ in range(generator.integers(1, 13) if hard < 0 else generator.integers(1, 3)):
            logits = generator.normal(0.0, 1.0, 4) + np.array([2.0 - hard, 0.0, 0.0, 0.0])
            shares = np.exp(1.5 * logits) / np.exp(1.5 * logits).sum()
            confidence.append(float(shares.max()))
            true_share.append(float(shares[0]))
            is_wrong.append(bool(shares.argmax() != 0))
            patients.append(str(patient))
    return confidence, true_share, is_wrong, patients


def _each_patient(values: list[bool], patients: list[str]) -> float:
    of: dict[str, list[bool]] = {}
    for value, patient in zip(values, patients, strict=True):
        of.setdefault(patient, []).append(value)
    return float(np.mean([np.mean(each) for each in of.values()]))


@pytest.mark.parametrize(("studies", "near"), [(60, 0.03), pytest.param(3000, 0.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("number", [40, 150])
def test_sets_hold_the_truth_and_errors_stay_below_the_rate(number: int, studies: int, near: float) -> None:
    generator = np.random.default_rng(number)
    held, wrong = [], []
    for _ in range(studies):
        confidence, true_share, is_wrong, patients = _drawn(generator, number)
        in_set = least_probability(true_share, patients, coverage=0.95)
        threshold = answering_threshold(confidence, is_wrong, patients, rate=0.1)
        assert threshold is not None
        confidence, true_share, is_wrong, patients = _drawn(generator, 20)
        held.append(_each_patient([share >= in_set for share in true_share], patients))
        given = [c >= threshold.confidence and w for c, w in zip(confidence, is_wrong, strict=True)]
        wrong.append(_each_patient(given, patients))
    assert 0.935 - near <= np.mean(held) <= 0.975 + near
    assert 0.1 - 3 / number - near <= np.mean(wrong) <= 0.102 + near
