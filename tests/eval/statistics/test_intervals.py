from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from medtune.eval.statistics import Numbers
from medtune.eval.statistics.column_sums import Recomputed
from medtune.eval.statistics.intervals import (
    gain_interval,
    mean_interval,
    statistic_gain_interval,
    statistic_interval,
    wilson,
)
from medtune.eval.statistics.patient_swaps import mcnemar_exact


def clustered(num_clusters: int, per_cluster: int, seed: int = 0) -> tuple[list[float], list[str]]:
    rng = np.random.default_rng(seed)
    share = rng.beta(1, 1, num_clusters)
    values = [float(rng.random() < share[c]) for c in range(num_clusters) for _ in range(per_cluster)]
    return values, [f"p{c}" for c in range(num_clusters) for _ in range(per_cluster)]


@given(st.integers(1, 400), st.data())
def test_wilson_equals_scipy(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    low, high = binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-9)


def mean(values: list[float]) -> Recomputed:
    def of(rows: Numbers) -> float:
        return float(np.mean(np.asarray(values)[rows]))

    return Recomputed(of, len(values))


def test_mean_interval_of_single_questions_is_near_the_binomial_one() -> None:
    values = [1.0] * 60 + [0.0] * 40
    low, high = mean_interval(values, [str(number) for number in range(100)])
    exact = binomtest(60, 100).proportion_ci()
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=0.015)


def test_mean_interval_is_wider_for_clusters_than_for_rows() -> None:
    values, clusters = clustered(20, 10)
    by_patient, by_row = mean_interval(values, clusters), mean_interval(values, [str(n) for n in range(len(values))])
    assert by_patient.high - by_patient.low > 1.5 * (by_row.high - by_row.low)


def test_intervals_do_not_depend_on_the_names_of_patients() -> None:
    values, clusters = clustered(12, 4)
    renamed = [f"x{99 - int(name[1:])}" for name in clusters]
    assert mean_interval(values, clusters) == mean_interval(values, renamed)
    assert gain_interval(values, values[::-1], clusters) == gain_interval(values, values[::-1], renamed)


def test_intervals_do_not_depend_on_the_order_of_the_questions() -> None:
    rng = np.random.default_rng(0)
    values, clusters = rng.random(48), np.array([f"p{number // 4}" for number in range(48)])
    order = rng.permutation(48)
    shuffled = mean_interval(values[order].tolist(), clusters[order].tolist())
    assert shuffled == pytest.approx(mean_interval(values.tolist(), clusters.tolist()), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("num_clusters", [1, 4, 20])
def test_mean_interval_of_unanimous_answers_is_wilson_of_the_clusters(value: float, num_clusters: int) -> None:
    clusters = [f"p{number}" for number in range(num_clusters) for _ in range(5)]
    assert mean_interval([value] * len(clusters), clusters) == wilson(value * num_clusters, num_clusters)


def test_mean_interval_of_one_patient_is_wide() -> None:
    low, high = mean_interval([1.0, 0.0, 1.0, 1.0], ["p"] * 4)
    assert high - low > 0.7


def test_mean_interval_of_equal_clusters_has_a_width() -> None:
    low, high = mean_interval([1.0, 0.0] * 20, [f"p{number // 2}" for number in range(40)])
    assert low < 0.4
    assert high > 0.6


def test_mean_interval_with_one_wrong_answer_is_no_narrower_than_with_none() -> None:
    clusters = [f"p{number // 5}" for number in range(100)]
    flawless, nearly = mean_interval([1.0] * 100, clusters), mean_interval([0.0] + [1.0] * 99, clusters)
    assert nearly.low <= flawless.low


def test_recomputed_mean_is_near_the_vectorised_one() -> None:
    values, clusters = clustered(15, 4)
    recomputed = statistic_interval(mean(values), clusters, right=values)
    assert recomputed == pytest.approx(mean_interval(values, clusters), abs=1e-9)


def test_gain_interval_without_any_change_is_not_a_point() -> None:
    values, clusters = clustered(12, 4)
    low, high = gain_interval(values, values, clusters)
    assert low < -0.1
    assert high > 0.1


def test_gain_interval_from_all_wrong_to_all_right_stays_below_certainty() -> None:
    clusters = [f"p{number // 3}" for number in range(30)]
    low, high = gain_interval([0.0] * 30, [1.0] * 30, clusters)
    assert 0 < low < 0.9
    assert high == 1.0


def test_gain_interval_is_paired() -> None:
    before, clusters = clustered(30, 4)
    after = [1.0 if number % 5 == 0 else value for number, value in enumerate(before)]
    paired = gain_interval(before, after, clusters)
    assert paired.high - paired.low < 0.5 * (mean_interval(before, clusters).high - mean_interval(before, clusters).low)


def test_recomputed_gain_is_near_the_vectorised_one() -> None:
    before, clusters = clustered(30, 4)
    after, _ = clustered(30, 4, seed=9)
    recomputed = statistic_gain_interval(mean(before), mean(after), clusters, right=(before, after))
    assert recomputed == pytest.approx(gain_interval(before, after, clusters), abs=1e-9)


def test_gain_interval_of_a_flawless_stage_is_no_narrower_than_that_of_the_answers_before() -> None:
    before, clusters = clustered(18, 4)
    low, high = gain_interval(before, [1.0] * len(before), clusters)
    least, most = mean_interval(before, clusters)
    assert low <= 1 - most + 1e-9
    assert high >= 1 - least - 1e-9


@pytest.mark.parametrize("num_patients", [12, 20, 40, 100])
def test_gain_interval_of_one_question_each_excludes_0_where_the_exact_test_rejects(num_patients: int) -> None:
    patients = [str(number) for number in range(num_patients)]
    for up, down in product(range(13), range(13)):
        same = num_patients - up - down
        if same >= 0:
            before, after = [0.0] * up + [1.0] * down + [0.0] * same, [1.0] * up + [0.0] * down + [0.0] * same
            low, high = gain_interval(before, after, patients)
            assert (low <= 0 <= high) == (mcnemar_exact(down, up) > 0.05), (up, down)


def test_nine_patients_up_and_two_down_of_forty_are_no_sure_gain() -> None:
    before, after = [0.0] * 9 + [1.0] * 2 + [0.0] * 29, [1.0] * 9 + [0.0] * 2 + [0.0] * 29
    low, high = gain_interval(before, after, [str(number) for number in range(40)])
    assert low < 0 < high


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_intervals_hold_the_value_and_stay_within_bounds(answers: list[tuple[int, int, int]]) -> None:
    patients = [f"p{patient}" for patient, _, _ in answers]
    before, after = ([row[phase] / 4 for row in answers] for phase in (1, 2))
    low, high = mean_interval(before, patients)
    assert 0 <= low <= np.mean(before) + 1e-9
    assert np.mean(before) - 1e-9 <= high <= 1
    low, high = gain_interval(before, after, patients)
    gain = float(np.mean(after) - np.mean(before))
    assert -1 <= low <= gain + 1e-9
    assert gain - 1e-9 <= high <= 1
    assert gain_interval(after, before, patients) == pytest.approx((-high, -low), abs=1e-6)


@pytest.mark.parametrize(
    ("values", "clusters", "wanted"),
    [
        ([], [], "at least one"),
        ([1.0], ["a", "b"], "one value per question"),
        ([1.5], ["a"], "within"),
        ([float("nan")], ["a"], "within"),
    ],
)
def test_mean_interval_refuses_bad_input(values: list[float], clusters: list[str], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        mean_interval(values, clusters)


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="wilson wants"):
        wilson(successes, n)
