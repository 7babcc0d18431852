"""Tests the coverage of intervals and the level of tests on simulated answers whose truth is known."""

import numpy as np
import pytest

from medtune.eval.statistics.column_sums import mean_of
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


@pytest.mark.parametrize(
    ("patients", "repeats"),
    [
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((6, 1000), (60, 200))),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in ((12, 1000), (60, 1000))),
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
