import numpy as np
import pytest

from medtune.eval.statistics import Numbers
from medtune.eval.statistics.column_sums import MOST_LEFT_OUT, Recomputed, dense_sums, mean_of
from medtune.eval.statistics.power import estimated_icc
from medtune.eval.statistics.spread import Term, spread


def clustered(sizes: list[int], icc: float, seed: int = 0) -> tuple[np.ndarray, Numbers]:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    scale = (1 - icc) / icc
    return (rng.random(codes.size) < rng.beta(scale / 2, scale / 2, len(sizes))[codes]).astype(float), codes


def test_the_design_effect_is_kishs_with_the_correlation_by_analysis_of_variance() -> None:
    values, codes = clustered([3, 9, 5, 12, 7, 4, 20, 6], 0.4)
    sizes = np.bincount(codes)
    icc = estimated_icc(values.tolist(), [str(code) for code in codes])
    assert 0 < icc < 1
    found = spread([Term(1, mean_of(values))], codes)
    assert found.design_effect == pytest.approx(1 + (np.sum(sizes**2) / sizes.sum() - 1) * icc)
    assert found.row_variance == pytest.approx(values.var())
    assert found.equal_clusters == pytest.approx(sizes.sum() ** 2 / np.sum(sizes**2))
    assert found.rows == pytest.approx(values)


def test_the_variance_is_that_of_simulated_data() -> None:
    sizes = [2, 4, 6, 8, 10, 20, 30, 40] * 3
    drawn = [clustered(sizes, 0.3, seed) for seed in range(400)]
    found = [spread([Term(1, mean_of(values))], codes) for values, codes in drawn]
    true = np.var([each.value for each in found])
    assert np.mean([each.variance for each in found]) == pytest.approx(true, rel=0.15)


def test_answers_that_balance_within_patients_lower_the_variance_to_half_at_most() -> None:
    codes = np.repeat(np.arange(20), 2)
    found = spread([Term(1, mean_of([1.0, 0.0] * 20))], codes)
    assert found.design_effect == 0.5


def test_equal_rows_and_one_cluster_tell_nothing() -> None:
    codes = np.repeat(np.arange(4), 3)
    assert not spread([Term(1, mean_of([0.1] * 12))], codes).is_measured
    assert not spread([Term(1, mean_of([0.0, 1.0, 1.0]))], np.zeros(3, dtype=np.intp)).is_measured


def test_a_gain_is_paired() -> None:
    values, codes = clustered([5] * 10, 0.5)
    after = values.copy()
    after[::10] = 1 - after[::10]
    found = spread([Term(-1, mean_of(values)), Term(1, mean_of(after))], codes)
    assert found.value == pytest.approx(after.mean() - values.mean())
    assert found.row_variance == pytest.approx(np.var(after - values))


def test_a_recomputed_statistic_of_thousands_leaves_out_some_hundred() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(2000), 3)
    table = np.column_stack([rng.random(6000), rng.random(6000)])
    calls = []

    def ratio(rows: Numbers) -> float:
        calls.append(rows.size)
        return float(table[rows, 0].sum() / table[rows, 1].sum())

    summed = spread([Term(1, dense_sums(table, lambda sums: sums[..., 0] / sums[..., 1]))], codes)
    anew = spread([Term(1, Recomputed(ratio, 6000))], codes)
    assert len(calls) == 2 * MOST_LEFT_OUT + 1
    assert anew.value == pytest.approx(summed.value)
    assert anew.variance == pytest.approx(summed.variance, rel=0.25)
    assert anew.clusters == MOST_LEFT_OUT


def test_few_patients_with_a_large_influence_leave_few_degrees_of_freedom() -> None:
    codes = np.repeat(np.arange(50), 2)
    rng = np.random.default_rng(0)
    many = spread([Term(1, mean_of(rng.normal(size=100)))], codes)
    few = spread([Term(1, mean_of([40.0, 41.0] + [1.0] * 98))], codes)
    assert many.freedom > 25
    assert few.freedom < 4
