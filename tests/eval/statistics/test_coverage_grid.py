"""Tests how often intervals hold the truth, over a grid of simulated data sets; the figures are in docs/intervals.md.

`pytest -m soak -s tests/eval/statistics/test_coverage_grid.py` prints them. Wanted are 0.935 to 0.975. The upper limit
holds where the variance rests on enough patients: an interval of two patients, or of one wrong answer in a hundred, has
few possible outcomes and can only cover too often. Tolerances are 3 standard errors of the simulated share.

A few data sets of each setting (`slow`) say too little about it alone. What is wanted of every setting is wanted of all
together too, and of their share the standard error is as small as that of one setting with thousands of data sets.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from medtune.data.types import Interval
from medtune.eval.statistics import Floats, Numbers
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import gain_interval, mean_interval, method_for, statistic_interval
from tests.eval.statistics.simulated_answers import (
    Answers,
    Setting,
    patient_sizes,
    simulated,
    skill,
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


class Found(NamedTuple):
    """How often the intervals of a setting's data sets held the truth, and what they rested on."""

    setting: Setting
    held: int
    repeats: int
    telling: float
    held_when_wider: int  # With intervals 1.6 times as wide: one of 95 in 100 would hold the truth in 99.8 of 100.


def simulations(
    settings: Sequence[Setting],
    interval: Callable[[Answers], Interval],
    truth: Callable[[Setting], float],
    values: Callable[[Answers], list[float]],
    *,
    data_sets: int,
) -> list[Found]:
    """Simulates every setting, and prints its coverage with the mean width."""
    results = []
    for number, setting in enumerate(settings):
        rng, repeats = np.random.default_rng(number), data_sets // 2 if setting.patients > 100 else data_sets
        held, wider, width, telling = 0, 0, 0.0, 0.0
        for _ in range(repeats):
            answers = simulated(rng, setting)
            low, high = interval(answers)
            held += low - 1e-9 <= truth(setting) <= high + 1e-9
            width += high - low
            wider += abs(truth(setting) - (low + high) / 2) <= 0.8 * (high - low) + 1e-9
            telling += telling_patients(values(answers), answers.patients)
        found = Found(setting, held, repeats, telling / repeats, wider)
        results.append(found)
        share = held / repeats
        print(f"{setting}: covers {share:.3f}, mean width {width / repeats:.3f}, telling patients {found.telling:.1f}")
    return results


def is_too_low(found: Sequence[Found], *, errors: float = 3) -> bool:
    held, repeats = sum(each.held for each in found), sum(each.repeats for each in found)
    return held / repeats < LEAST - errors * math.sqrt(LEAST * (1 - LEAST) / repeats)


def is_too_high(found: Sequence[Found], *, errors: float = 3) -> bool:
    """Looks at the settings whose variance rests on enough patients."""
    telling = [each for each in found if each.telling >= ENOUGH_PATIENTS]
    held, repeats = sum(each.held for each in telling), sum(each.repeats for each in telling)
    return repeats > 0 and held / repeats > MOST + errors * math.sqrt(MOST * (1 - MOST) / repeats)


def when_wider(found: Sequence[Found]) -> list[Found]:
    return [each._replace(held=each.held_when_wider) for each in found]


def wrong(found: Sequence[Found]) -> list[Found]:
    """Returns the settings that are covered too seldom or too often, each by itself."""
    return [each for each in found if is_too_low([each]) or is_too_high([each])]


def change(answers: Answers) -> list[float]:
    return [after - before for before, after in zip(answers.before, answers.after, strict=True)]


def of_gain(answers: Answers) -> Interval:
    return gain_interval(answers.before, answers.after, answers.patients)


def of_mean(answers: Answers) -> Interval:
    return mean_interval(answers.before, answers.patients)


OF_MEAN = rotated([(accuracy, 0.5, 0.0) for accuracy in (0.05, 0.5, 0.8, 0.98)])
OF_GAIN = rotated([(0.05, 0.05, 0.8), (0.5, 0.5, 0.0), (0.3, 0.6, 0.5), (0.9, 0.98, 0.8), (0.05, 0.95, 0.5)])
FEW_CHANGE = [
    Setting(patients, size_cv, icc, before, after=after, changed=changed)
    for (patients, (size_cv, icc), before), (changed, after) in zip(
        product((10, 40, 200), ((0, 0.0), (1, 0.3), (2, 0.6)), (0.05, 0.5, 0.98)),
        [(changed, after) for changed in (0, 1, 2, 3, 4, 5) for after in (0.0, 0.5, 1.0)] * 2,
        strict=False,
    )
]


def simulated_means(data_sets: int, interval: Callable[[Answers], Interval] = of_mean) -> list[Found]:
    return simulations(
        OF_MEAN, interval, lambda setting: setting.before, lambda answers: answers.before, data_sets=data_sets
    )


def simulated_gains(
    data_sets: int, interval: Callable[[Answers], Interval] = of_gain, *, settings: Sequence[Setting] = OF_GAIN
) -> list[Found]:
    return simulations(settings, interval, true_gain, change, data_sets=data_sets)


@pytest.mark.soak
def test_intervals_of_a_mean_hold_the_truth_as_often_as_they_say() -> None:
    assert wrong(simulated_means(1500)) == []


@pytest.mark.soak
def test_intervals_of_a_gain_hold_the_truth_as_often_as_they_say() -> None:
    assert wrong(simulated_gains(1000)) == []


@pytest.mark.soak
def test_intervals_of_a_gain_hold_the_truth_where_few_patients_change() -> None:
    assert wrong(simulated_gains(1000, settings=FEW_CHANGE)) == []


@pytest.mark.slow
def test_intervals_of_a_mean_hold_the_truth_over_all_settings_together() -> None:
    # 4,680 data sets: the standard error of their share is 0.004.
    found = simulated_means(60)
    assert (is_too_low(found), is_too_high(found), wrong(found)) == (False, False, [])
    assert is_too_high(when_wider(found))


@pytest.mark.slow
def test_intervals_of_a_gain_hold_the_truth_over_all_settings_together() -> None:
    # 3,900 data sets of all settings, and 2,340 where few patients change: standard errors of 0.004 and 0.005.
    of_all = simulated_gains(40)
    for found in (of_all, simulated_gains(100, settings=FEW_CHANGE)):
        assert (is_too_low(found), is_too_high(found), wrong(found)) == (False, False, [])
    assert is_too_high(when_wider(of_all))


def by_question(answers: Answers) -> Answers:
    """Takes every question as a patient of its own, as if answers about one patient were not alike."""
    return Answers([str(number) for number in range(len(answers.patients))], answers.before, answers.after)


@pytest.mark.soak
def test_fewer_data_sets_still_find_intervals_that_are_too_narrow() -> None:
    assert is_too_low(simulated_means(8, lambda answers: of_mean(by_question(answers))))
    assert is_too_low(simulated_gains(5, lambda answers: of_gain(by_question(answers))))
    few = simulated_gains(15, lambda answers: of_gain(by_question(answers)), settings=FEW_CHANGE)
    # Over all settings these cover often enough: where nobody changes, any interval around 0 does.
    assert not is_too_low(few)
    assert len(wrong(few)) > 3


def unequal_means_held(patients: int, icc: float, *, repeats: int) -> int:
    """Returns how many intervals of a mean held it where a patient's accuracy is given by the number of questions."""
    setting, rng = Setting(patients, 2.0, icc, 0.5), np.random.default_rng(3)
    everyone = np.sort(patient_sizes(np.random.default_rng(1), replace(setting, patients=200_000)))

    def skills(sizes: Numbers) -> Floats:
        least, most = (np.searchsorted(everyone, sizes, side) for side in ("left", "right"))
        return skill((least + rng.random(sizes.size) * (most - least)) / everyone.size, 0.5, icc)

    truth, held = float(everyone @ skills(everyone) / everyone.sum()), 0
    for _ in range(repeats):
        codes = np.repeat(np.arange(patients), sizes := patient_sizes(rng, setting))
        right = (rng.random(codes.size) < skills(sizes)[codes]).astype(float)
        low, high = mean_interval(right.tolist(), [str(code) for code in codes])
        held += low <= truth <= high
    print(f"accuracy by size, {patients} patients, icc {icc}: covers {held / repeats:.3f}")
    return held


@pytest.mark.soak
@pytest.mark.parametrize(
    ("patients", "icc", "least"), [(5, 0.6, 0.86), (5, 0.3, 0.88), (10, 0.3, 0.88), (20, 0.3, 0.93), (50, 0.3, 0.935)]
)
def test_a_mean_of_few_unequal_patients_is_covered_as_often_as_the_caution_says(
    patients: int, icc: float, least: float
) -> None:
    assert unequal_means_held(patients, icc, repeats=1000) / 1000 >= least
    assert "CAUTION" not in method_for([str(number % 50) for number in range(150)])


def skewed_errors_held(patients: int, size_cv: float, *, repeats: int) -> int:
    """Returns how many intervals of the mean of a log-normal error in mm held it."""
    rng, setting, held = np.random.default_rng(patients), Setting(patients, size_cv, 0.0, 0.5), 0
    for _ in range(repeats):
        names = simulated(rng, setting).patients
        own = rng.normal(0, 0.4, patients)[np.array(names, dtype=np.intp)]
        error_mm = np.exp(own + rng.normal(0, 0.6, len(names)))
        low, high = statistic_interval(mean_of(error_mm), names, right=None, bounds=Interval(0.0, math.inf))
        held += low <= math.exp((0.4**2 + 0.6**2) / 2) <= high
    print(f"error in mm, {patients} patients, size cv {size_cv}: covers {held / repeats:.3f}")
    return held


SKEWED = [(10, 0.0), (20, 1.0), (40, 0.0), (200, 2.0)]


@pytest.mark.soak
@pytest.mark.parametrize(("patients", "size_cv"), SKEWED)
def test_a_skewed_error_without_bounds_is_covered_nearly_as_often(patients: int, size_cv: float) -> None:
    assert 0.92 <= skewed_errors_held(patients, size_cv, repeats=1000) / 1000 <= 0.985


@pytest.mark.slow
def test_skewed_errors_are_covered_nearly_as_often_over_all_settings_together() -> None:
    # 1,000 data sets, as many as of each setting alone, so that its bounds hold.
    held = [skewed_errors_held(patients, size_cv, repeats=250) for patients, size_cv in SKEWED]
    assert 0.92 <= sum(held) / 1000 <= 0.985
    # By itself each has a standard error of 0.017.
    assert min(held) / 250 >= 0.92 - 3 * math.sqrt(0.92 * 0.08 / 250)


def percentiles_of_a_bootstrap(answers: Answers) -> Interval:
    """Returns where 95 of 100 gains lie if patients are drawn anew: the method that is not used."""
    codes, number = np.array(answers.patients, dtype=np.intp), len(set(answers.patients))
    sums, sizes = np.bincount(codes, weights=change(answers)), np.bincount(codes)
    drawn = np.random.default_rng(0).integers(0, number, (500, number))
    return Interval(*np.percentile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [2.5, 97.5]).tolist())


HARD = [Setting(40, 2.0, 0.3, 0.2, after=0.2, kept=0.0), Setting(20, 1.0, 0.6, 0.5, after=0.5, kept=0.7)]


def gains_held(setting: Setting, interval: Callable[[Answers], Interval], *, repeats: int) -> int:
    held, rng = 0, np.random.default_rng(5)
    for _ in range(repeats):
        low, high = interval(simulated(rng, setting))
        held += low <= true_gain(setting) <= high
    return held


@pytest.mark.soak
@pytest.mark.parametrize("setting", HARD)
def test_a_gain_is_covered_where_percentiles_of_a_bootstrap_covered_90_to_91_in_100(setting: Setting) -> None:
    assert gains_held(setting, of_gain, repeats=2000) / 2000 >= LEAST


@pytest.mark.slow
def test_gains_are_covered_in_both_settings_together_where_percentiles_of_a_bootstrap_cover_too_seldom() -> None:
    # Both have 1,000 data sets: their share has the standard error of one with 2,000, so that its bound holds.
    held, by_bootstrap = (
        sum(gains_held(setting, interval, repeats=1000) for setting in HARD)
        for interval in (of_gain, percentiles_of_a_bootstrap)
    )
    assert held / 2000 >= LEAST > by_bootstrap / 2000
