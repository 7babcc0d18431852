"""Tests the coverage of intervals and the level of tests on simulated answers whose truth is known."""

import numpy as np
import pytest

from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import gain_interval, mean_interval
from medtune.eval.statistics.patient_swaps import mcnemar_exact, patient_p

Answers = tuple[list[float], list[float], list[str]]


def clustered(rng: np.random.Generator, *, patients: int, gain: float) -> Answers:
    """Returns answers whose probability to be right, and whose change, depend on the patient, with 3 to 12 each."""
    codes = np.repeat(np.arange(patients), rng.integers(3, 13, patients))
    skill = rng.uniform(0.2, 0.6, patients)[codes]
    shift = (gain + rng.choice([-0.15, 0.15], patients))[codes]
    before = rng.random(codes.size) < skill
    after = rng.random(codes.size) < skill + shift
    return before.astype(float).tolist(), after.astype(float).tolist(), [str(code) for code in codes]


def held(patients: int, *, repeats: int, by_question: bool = False) -> tuple[int, int]:
    """Returns how many intervals held the share of right answers, 0.4, and the gain, 0.1.

    Args:
        by_question: Take every question as a patient of its own, which is wrong.
    """
    rng, share, gain = np.random.default_rng(patients), 0, 0
    for _ in range(repeats):
        before, after, names = clustered(rng, patients=patients, gain=0.1)
        if by_question:
            names = [str(number) for number in range(len(names))]
        low, high = mean_interval(before, names)
        share += low <= 0.4 <= high
        low, high = gain_interval(before, after, names)
        gain += low <= 0.1 <= high
    return share, gain


@pytest.mark.soak
@pytest.mark.parametrize("patients", [25, 50, 150])
def test_intervals_of_clustered_answers_hold_the_truth_in_93_to_97_of_100(patients: int) -> None:
    share, gain = held(patients, repeats=3000)
    assert 0.93 <= share / 3000 <= 0.97
    assert 0.93 <= gain / 3000 <= 0.97


@pytest.mark.slow
def test_intervals_hold_the_truth_in_93_to_97_of_100_over_all_numbers_of_patients_together() -> None:
    # 1,200 data sets: a share of 0.95 has a standard error of 0.0063, so that both bounds are 3 of them away. One that
    # takes questions as patients holds the truth in about 90 of 100: 3 standard errors below the bound.
    repeats = 400
    found = np.array([held(patients, repeats=repeats) for patients in (25, 50, 150)]) / repeats
    assert (found.mean(axis=0) >= 0.93).all()
    assert (found.mean(axis=0) <= 0.97).all()
    # Each number by itself: 3 standard errors of its data sets below the bound.
    assert (found >= 0.93 - 3 * (0.93 * 0.07 / repeats) ** 0.5).all()
    wrong = np.array([held(patients, repeats=repeats, by_question=True) for patients in (25, 50, 150)]) / repeats
    assert (wrong.mean(axis=0) < 0.93).all()


@pytest.mark.parametrize(
    ("patients", "repeats"),
    [
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((6, 1000), (12, 1000), (60, 200))),
        pytest.param(60, 1000, marks=pytest.mark.soak),
    ],
)
def test_the_permutation_test_of_the_gain_keeps_its_level_where_mcnemars_does_not(patients: int, repeats: int) -> None:
    rng = np.random.default_rng(patients)
    found = np.zeros((repeats, 2))
    for number in range(repeats):
        before, after, names = clustered(rng, patients=patients, gain=0.0)
        pairs = list(zip(before, after, strict=True))
        found[number] = (
            patient_p(mean_of([*before, *after]), names, seed=number),
            mcnemar_exact(pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0))),
        )
    error = 1.645 * (0.05 * 0.95 / repeats) ** 0.5
    permutation, mcnemar = (found < 0.05).mean(axis=0)
    assert permutation <= 0.05 + error
    assert mcnemar > permutation
    assert (found[:, 0] < 0.01).mean() <= 0.01 + 1.645 * (0.01 * 0.99 / repeats) ** 0.5
