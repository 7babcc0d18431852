"""Tests on simulated patients that the interval of a mean over passes contains the noise of repeats.

The truth is the accuracy over all patients and all replies that the model could draw. A question's chance of a right
answer varies by patient and by question, and each pass draws from it anew.
"""

import numpy as np
import pytest

from medtune.data.types import Interval
from medtune.eval.statistics import Floats
from medtune.eval.statistics.column_sums import mean_of, mean_over_passes
from medtune.eval.statistics.intervals import statistic_gain_interval, statistic_interval

TRIALS, PATIENTS, SIZE = 1000, 40, 4
PASSES, SPREADS = (1, 2, 5), (0.1, 0.3)
NAMES = [str(patient) for patient in np.repeat(np.arange(PATIENTS), SIZE)]


def right(rng: np.random.Generator, chances: Floats, *, num_passes: int) -> Floats:
    """Returns for each pass and question 1 for a right answer and 0 for a wrong one."""
    return (rng.random((num_passes, chances.size)) < chances).astype(np.float64)


def chances(rng: np.random.Generator, *, spread: float) -> Floats:
    """Returns each question's chance of a right answer: 0.4, up to `spread` off by patient and 0.08 by question."""
    by_patient = np.repeat(rng.uniform(-spread, spread, PATIENTS), SIZE)
    found: Floats = 0.4 + by_patient + rng.uniform(-0.08, 0.08, by_patient.size)
    return found


def holds(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def held(num_passes: int, spread: float, *, trials: int) -> tuple[int, int]:
    """Returns how many intervals held the mean over the passes, 0.4, and the gain, 0.1."""
    rng = np.random.default_rng(num_passes)
    one, gain = 0, 0
    for _ in range(trials):
        ease = chances(rng, spread=spread)
        before, after = (right(rng, each, num_passes=num_passes) for each in (ease, ease + 0.1))
        measured = [mean_over_passes([mean_of(each) for each in side]) for side in (before, after)]
        shares = before.mean(axis=0).tolist(), after.mean(axis=0).tolist()
        one += holds(statistic_interval(measured[0], NAMES, right=shares[0]), 0.4)
        gain += holds(statistic_gain_interval(measured[0], measured[1], NAMES, right=shares), 0.1)
    return one, gain


@pytest.mark.soak
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("num_passes", PASSES)
def test_the_interval_holds_the_truth_as_often_with_any_number_of_passes(num_passes: int, spread: float) -> None:
    one, gain = held(num_passes, spread, trials=TRIALS)
    assert 0.93 <= one / TRIALS <= 0.975
    assert 0.93 <= gain / TRIALS <= 0.975


@pytest.mark.slow
def test_the_interval_holds_the_truth_over_all_numbers_of_passes_together() -> None:
    # 1,500 data sets: their share has a smaller standard error, 0.006, than that of one setting with 1,000 (`soak`), so
    # that its bounds hold. Each setting by itself has 3 standard errors of 250.
    trials = 250
    found = np.array([held(passes, spread, trials=trials) for passes in PASSES for spread in SPREADS]) / trials
    assert (found.mean(axis=0) >= 0.93).all()
    assert (found.mean(axis=0) <= 0.975).all()
    assert (found >= 0.93 - 3 * (0.93 * 0.07 / trials) ** 0.5).all()


@pytest.mark.soak
def test_passes_that_are_taken_as_more_patients_would_be_found_out() -> None:
    rng, one = np.random.default_rng(5), 0
    names = [str(number) for number in range(5 * len(NAMES))]
    for _ in range(250):
        said = right(rng, chances(rng, spread=0.3), num_passes=5).ravel()
        one += holds(statistic_interval(mean_of(said), names, right=said.tolist()), 0.4)
    assert one / 250 < 0.93 - 3 * (0.93 * 0.07 / 250) ** 0.5


@pytest.mark.slow
def test_more_passes_narrow_the_interval_only_by_the_noise_of_repeats() -> None:
    rng = np.random.default_rng(7)
    widths: dict[int, list[float]] = {1: [], 5: [], 25: []}
    spread: dict[int, list[float]] = {1: [], 5: [], 25: []}
    for _ in range(300):
        ease = chances(rng, spread=0.1)
        for num_passes, found in widths.items():
            passes = right(rng, ease, num_passes=num_passes)
            statistic, share = mean_over_passes([mean_of(each) for each in passes]), passes.mean(axis=0).tolist()
            low, high = statistic_interval(statistic, NAMES, right=share)
            found.append(high - low)
            spread[num_passes].append(statistic.value())
    for num_passes, found in widths.items():
        # The half width over 2.02, the t quantile of 40 patients, is the standard error that the interval claims.
        assert np.mean(found) / 2 / 2.02 == pytest.approx(np.std(spread[num_passes]), rel=0.12)
    assert np.mean(widths[1]) > 1.3 * np.mean(widths[5]) > 1.3 * np.mean(widths[25])
