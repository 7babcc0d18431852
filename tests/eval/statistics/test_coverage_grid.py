"""Tests how often intervals hold the truth, over a grid of simulated data sets; the figures are in docs/intervals.md.

`pytest -m slow -s tests/eval/statistics/test_coverage_grid.py` prints them. Wanted are 0.935 to 0.975. The upper limit
holds where the variance rests on enough patients: an interval of two patients, or of one wrong answer in a hundred, has
few possible outcomes and can only cover too often. Tolerances are 3 standard errors of the simulated share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from medtune.data.types import Interval
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import gain_interval, mean_interval, statistic_interval
from tests.eval.statistics.simulated_answers import (
    Answers,
    Setting,
    simulated,
    telling_patients,
    true_gain,
)

LEAST, MOST = 0.935, 0.975
ENOUGH_PATIENTS = 8
PATIENTS = (2, 3, 5, 10, 20, 40, 200)
# The nine pairs of (size cv, icc), in three groups that hold each value once.
PAIRS = [pair for start in range(3) for pair in ((start, 0.0), ((start + 1) % 3, 0.3), ((start + 2) % 3, 0.6))]


def rotated(kinds: Sequence[tuple[float, float, float]]) -> list[Setting]:
    """Returns settings of all numbers of patients and all (before, after, kept), each with a third of the pairs."""
    return [
        Setting(patients, *PAIRS[3 * ((place + number) % 3) + third], before=before, after=after, kept=kept)
        for (place, patients), (number, (before, after, kept)), third in product(
            enumerate(PATIENTS), enumerate(kinds), range(3)
        )
    ]


def covered(
    settings: Sequence[Setting],
    interval: Callable[[Answers], Interval],
    truth: Callable[[Setting], float],
    values: Callable[[Answers], list[float]],
    *,
    data_sets: int,
) -> None:
    """Checks the coverage of every setting, and prints it with the mean width."""
    wrong = []
    for number, setting in enumerate(settings):
        rng, repeats = np.random.default_rng(number), data_sets // 2 if setting.patients > 100 else data_sets
        held, width, telling = 0, 0.0, 0.0
        for _ in range(repeats):
            answers = simulated(rng, setting)
            low, high = interval(answers)
            held += low - 1e-9 <= truth(setting) <= high + 1e-9
            width += high - low
            telling += telling_patients(values(answers), answers.patients)
        share, telling = held / repeats, telling / repeats
        print(f"{setting}: covers {share:.3f}, mean width {width / repeats:.3f}, telling patients {telling:.1f}")
        too_low = share < LEAST - 3 * math.sqrt(LEAST * (1 - LEAST) / repeats)
        too_high = telling >= ENOUGH_PATIENTS and share > MOST + 3 * math.sqrt(MOST * (1 - MOST) / repeats)
        if too_low or too_high:
            wrong.append((setting, share))
    assert not wrong


def change(answers: Answers) -> list[float]:
    return [after - before for before, after in zip(answers.before, answers.after, strict=True)]


def of_gain(answers: Answers) -> Interval:
    return gain_interval(answers.before, answers.after, answers.patients)


@pytest.mark.slow
def test_intervals_of_a_mean_hold_the_truth_as_often_as_they_say() -> None:
    settings = rotated([(accuracy, 0.5, 0.0) for accuracy in (0.05, 0.5, 0.8, 0.98)])
    covered(
        settings,
        lambda answers: mean_interval(answers.before, answers.patients),
        lambda setting: setting.before,
        lambda answers: answers.before,
        data_sets=1500,
    )


@pytest.mark.slow
def test_intervals_of_a_gain_hold_the_truth_as_often_as_they_say() -> None:
    settings = rotated([(0.05, 0.05, 0.8), (0.5, 0.5, 0.0), (0.3, 0.6, 0.5), (0.9, 0.98, 0.8), (0.05, 0.95, 0.5)])
    covered(settings, of_gain, true_gain, change, data_sets=1000)


@pytest.mark.slow
def test_intervals_of_a_gain_hold_the_truth_where_few_patients_change() -> None:
    settings = [
        Setting(patients, size_cv, icc, before, after=after, changed=changed)
        for (patients, (size_cv, icc), before), (changed, after) in zip(
            product((10, 40, 200), ((0, 0.0), (1, 0.3), (2, 0.6)), (0.05, 0.5, 0.98)),
            [(changed, after) for changed in (0, 1, 2, 3, 4, 5) for after in (0.0, 0.5, 1.0)] * 2,
            strict=False,
        )
    ]
    covered(settings, of_gain, true_gain, change, data_sets=1000)


@pytest.mark.slow
@pytest.mark.parametrize(("patients", "size_cv"), [(10, 0.0), (20, 1.0), (40, 0.0), (200, 2.0)])
def test_a_skewed_error_without_bounds_is_covered_nearly_as_often(patients: int, size_cv: float) -> None:
    repeats, held = 1000, 0
    rng, setting = np.random.default_rng(patients), Setting(patients, size_cv, 0.0, 0.5)
    for _ in range(repeats):
        names = simulated(rng, setting).patients
        own = rng.normal(0, 0.4, patients)[np.array(names, dtype=np.intp)]
        error_mm = np.exp(own + rng.normal(0, 0.6, len(names)))
        low, high = statistic_interval(mean_of(error_mm), names, right=None, bounds=Interval(0.0, math.inf))
        held += low <= math.exp((0.4**2 + 0.6**2) / 2) <= high
    print(f"error in mm, {patients} patients, size cv {size_cv}: covers {held / repeats:.3f}")
    assert 0.92 <= held / repeats <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [Setting(40, 2.0, 0.3, 0.2, after=0.2, kept=0.0), Setting(20, 1.0, 0.6, 0.5, after=0.5, kept=0.7)],
)
def test_a_gain_is_covered_where_percentiles_of_a_bootstrap_covered_90_to_91_in_100(setting: Setting) -> None:
    repeats, held, rng = 2000, 0, np.random.default_rng(5)
    for _ in range(repeats):
        low, high = of_gain(simulated(rng, setting))
        held += low <= true_gain(setting) <= high
    assert held / repeats >= LEAST
