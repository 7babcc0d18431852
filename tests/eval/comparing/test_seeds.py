from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from medtune.data.types import Interval, Question
from medtune.eval.comparing.seeds import seeds_gain
from medtune.eval.metric import Metric, recomputed
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.statistics.intervals import gain_interval
from medtune.eval.statistics.score_limits import tango

Run = tuple[list[ParsedReply], list[ParsedReply]]


def rows(right: Sequence[float], patients: Sequence[int]) -> list[ParsedReply]:
    return [
        ParsedReply(
            Question(f"q{i}", f"m{i}", "?", ("a", "b"), "a", "choice", f"p{patient}"), None, "a" if is_right else "b"
        )
        for i, (is_right, patient) in enumerate(zip(right, patients, strict=True))
    ]


def simulated(rng: np.random.Generator, *, num_seeds: int, num_patients: int, size: int, seed_sd: float) -> list[Run]:
    """Returns simulated runs with accuracy 0.4 before and 0.6 on average after, which varies by seed and by patient."""
    patients = np.repeat(np.arange(num_patients), size)
    ease = np.clip(rng.normal(0, 0.15, num_patients), -0.4, 0.4)[patients]
    before = rng.random(patients.size) < np.clip(0.4 + ease, 0, 1)
    luck = rng.normal(0, seed_sd, num_seeds)
    shift = rng.normal(0, 0.1, num_patients)[patients]
    return [
        (
            rows(before.tolist(), patients.tolist()),
            rows((rng.random(patients.size) < np.clip(0.6 + ease + shift + each, 0, 1)).tolist(), patients.tolist()),
        )
        for each in luck
    ]


def interval(runs: Sequence[Run]) -> Interval:
    found = seeds_gain(runs, accuracy()).ci95
    assert found is not None
    return found


def test_where_nothing_changed_the_interval_is_that_of_so_many_patients() -> None:
    (run,) = simulated(np.random.default_rng(4), num_seeds=1, num_patients=5, size=2, seed_sd=0.0)
    found = seeds_gain([(run[0], run[0])] * 2, accuracy())
    assert found.value == 0
    assert found.ci95 == pytest.approx(tango(0, 0, 5))


def test_the_gain_is_the_mean_and_runs_that_agree_vary_by_patient_alone() -> None:
    (run,) = simulated(np.random.default_rng(0), num_seeds=1, num_patients=40, size=5, seed_sd=0.0)
    found = seeds_gain([run, run, run], accuracy())
    assert found.value == pytest.approx(accuracy().value(run[1]) - accuracy().value(run[0]))
    assert (found.seed_sd, found.n, found.num_patients) == (0, 200, 40)
    before, after = ([float(row.correct) for row in phase] for phase in run)
    plain = gain_interval(before, after, [row.question.patient_id for row in run[0]])
    assert found.ci95 == pytest.approx(plain, abs=1e-9)


def test_seeds_that_differ_widen_the_interval() -> None:
    wide = simulated(np.random.default_rng(1), num_seeds=4, num_patients=40, size=5, seed_sd=0.15)
    tight = simulated(np.random.default_rng(1), num_seeds=4, num_patients=40, size=5, seed_sd=0.0)
    lengths = [ci95.high - ci95.low for ci95 in map(interval, (wide, tight))]
    assert lengths[0] > 1.5 * lengths[1]
    found = seeds_gain(wide, accuracy())
    assert found.seed_sd == pytest.approx(np.std(found.per_seed, ddof=1))


def test_a_metric_without_sums_is_computed_anew() -> None:
    runs = simulated(np.random.default_rng(2), num_seeds=2, num_patients=10, size=3, seed_sd=0.1)
    summed = seeds_gain(runs, accuracy()).ci95
    mean = Metric(recomputed(lambda parsed: float(np.mean([row.correct for row in parsed]))))
    assert seeds_gain(runs, mean).ci95 == pytest.approx(summed, abs=1e-9)
    assert seeds_gain(runs, macro_f1()).n == 30


def test_one_run_and_other_questions_are_refused() -> None:
    runs = simulated(np.random.default_rng(3), num_seeds=2, num_patients=4, size=2, seed_sd=0.1)
    with pytest.raises(ValueError, match="at least 2 runs, got 1"):
        seeds_gain(runs[:1], accuracy())
    with pytest.raises(ValueError, match="scored different questions"):
        seeds_gain([runs[0], (runs[1][0][:-1], runs[1][1][:-1])], accuracy())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_seeds", "num_patients", "seed_sd"),
    [(2, 2, 0.1), (5, 2, 0.1), (3, 3, 0.05), (3, 10, 0.1), (2, 40, 0.15), (5, 40, 0.0), (5, 40, 0.1)],
)
def test_the_interval_holds_the_recipes_gain_as_often_as_it_says(
    num_seeds: int, num_patients: int, seed_sd: float
) -> None:
    rng = np.random.default_rng(num_seeds)
    truth = seeds_truth(rng, seed_sd)
    repeats, held, width = 400, 0, 0.0
    for _ in range(repeats):
        runs = simulated(rng, num_seeds=num_seeds, num_patients=num_patients, size=6, seed_sd=seed_sd)
        low, high = interval(runs)
        held += low <= truth <= high
        width += (high - low) / repeats
    print(f"{num_seeds} seeds x {num_patients} patients, seed sd {seed_sd}: {held / repeats:.3f}, width {width:.3f}")
    assert held / repeats >= 0.935 - 3 * (0.935 * 0.065 / repeats) ** 0.5
    # Two or three seeds say too little about how seeds vary for an interval that does not cover too often.
    if num_seeds > 3 and num_patients > 3:
        assert held / repeats <= 0.975 + 3 * (0.975 * 0.025 / repeats) ** 0.5
    if num_patients > 3:
        assert width < 1.4


def seeds_truth(rng: np.random.Generator, seed_sd: float) -> float:
    """Clipping moves the mean gain a little from 0.2."""
    ease = np.clip(rng.normal(0, 0.15, 10**6), -0.4, 0.4)
    after = np.clip(0.6 + ease + rng.normal(0, 0.1, 10**6) + rng.normal(0, seed_sd, 10**6), 0, 1)
    return float(after.mean() - np.clip(0.4 + ease, 0, 1).mean())
