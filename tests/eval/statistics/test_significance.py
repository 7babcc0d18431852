import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.eval.statistics import Numbers, patient_swaps
from medtune.eval.statistics.column_sums import Recomputed
from medtune.eval.statistics.intervals import mean_interval, statistic_interval, wilson
from medtune.eval.statistics.patient_swaps import holm, mcnemar_exact, p_equals, p_text
from tests.eval.golden import near, recorded
from tests.eval.statistics.other_definitions import (
    McNemar,
    benjamini_hochberg,
    bonferroni,
    clopper_pearson,
    clustered_standard_error,
    mcnemar,
    paired_permutation,
)

WIDENED = 0.012


def assert_mcnemar(found: McNemar, expected: dict[str, Any]) -> None:
    assert [found.exact.statistic, found.exact.p] == near([*expected["exact"].values()])
    for test, name in ((found.plain, "chi2_without_correction"), (found.corrected, "chi2_with_correction")):
        if name in expected:
            assert test is not None
            assert [test.statistic, test.p] == near([*expected[name].values()])
    assert found.mid_p == near(expected["mid_p"]) or (found.exact.p == 1 and found.mid_p is None)
    (both, first), (second, neither) = expected["table"]
    n = both + first + second + neither
    accuracies = [(both + first) / n, (both + second) / n, (first - second) / n]
    assert accuracies == near(expected["accuracy_row_col_difference"])


def test_golden_statistics_mcnemar() -> None:
    golden = recorded("statistics.json")
    for (b, c, a, d), expected in zip(golden["rows"]["mcnemar_b_c_a_d"], golden["expected"]["mcnemar"], strict=True):
        assert expected["table"] == [[a, b], [c, d]]
        assert mcnemar_exact(b, c) == near(expected["exact"]["p"])
        assert_mcnemar(mcnemar(b, c), expected)


def scores(model: str) -> dict[str, tuple[int, int]]:
    """Returns id -> (score, video) of the scored multiple-choice rows of a model."""
    table = recorded("rexsonovqa_published_scores.json")["rows"]
    found = [dict(zip(table["columns"]["mcq"], row, strict=True)) for row in table[model]["mcq"]]
    return {row["id"]: (row["score"], row["video"]) for row in found if row["keep"] is True}


def test_golden_statistics_mcnemar_of_published_scores() -> None:
    expected = recorded("statistics.json")["expected"]
    names = [match for match in (re.fullmatch(r"mcnemar_(.+)_vs_(.+)_mcq", name) for name in expected) if match]
    assert names
    for name in names:
        first, second = scores(name[1]), scores(name[2])
        table = np.zeros((2, 2), dtype=int)
        for id_, (score, _) in first.items():
            table[1 - score, 1 - second[id_][0]] += 1
        assert table.tolist() == expected[name[0]]["table"]
        assert_mcnemar(mcnemar(int(table[0, 1]), int(table[1, 0])), expected[name[0]])


def test_golden_statistics_proportions() -> None:
    golden = recorded("statistics.json")
    assert golden["rows"]["proportions"] == [[row["k"], row["n"]] for row in golden["expected"]["proportions"]]
    for row in golden["expected"]["proportions"]:
        k, n = row["k"], row["n"]
        assert [*wilson(k, n)] == near(row["wilson_95"])
        assert [*wilson(k, n, confidence=0.99)] == near(row["wilson_99"])
        assert [*clopper_pearson(k, n)] == near(row["clopper_pearson_95"])


def clustered(name: str) -> tuple[list[float], list[str]]:
    model = re.fullmatch(r"cluster_bootstrap_(.+)_mcq_by_video", name)
    if model:
        found = scores(model[1]).values()
        return [float(score) for score, _ in found], [str(video) for _, video in found]
    data = recorded("statistics.json")["rows"]["cluster_data"]
    return [float(value) for value in data["correct"]], [str(cluster) for cluster in data["cluster"]]


def test_golden_statistics_cluster_bootstraps() -> None:
    expected = recorded("statistics.json")["expected"]
    names = [name for name in expected if name.startswith("cluster_bootstrap_")]
    assert names
    for name in names:
        right, clusters = clustered(name)
        found = expected[name]
        assert np.mean(right) == near(found["mean"])
        assert len(set(clusters)) == found["clusters"]

        def mean(picked: Numbers, values: list[float] = right) -> float:
            return float(np.mean(np.asarray(values)[picked]))

        recomputed = statistic_interval(Recomputed(mean, len(right)), clusters, right=right)
        by_row = mean_interval(right, [str(number) for number in range(len(right))])
        for interval, kind in (
            (mean_interval(right, clusters), "cluster_percentile_95"),
            (recomputed, "cluster_percentile_95"),
            (by_row, "row_bootstrap"),
        ):
            for end, side in zip(interval, ("low", "high"), strict=True):
                low, high = found[f"{kind}_{side}"]
                assert low - WIDENED <= end <= high + WIDENED
        low, high = found["cluster_bootstrap_sd"]
        assert low * 0.97 <= clustered_standard_error(right, clusters) <= high * 1.03


def test_golden_statistics_paired_permutation() -> None:
    golden = recorded("statistics.json")
    pairs = zip(golden["rows"]["paired_scores"], golden["expected"]["paired_permutation"], strict=True)
    for (first, second), expected in pairs:
        found = paired_permutation(first, second)
        assert found.arrangements == expected["arrangements"]
        assert [found.mean_difference, found.p_two_sided, found.p_absolute, found.p_greater] == near(
            [
                expected["mean_difference"],
                expected["p_two_sided_scipy_exact"],
                expected["p_two_sided_by_absolute_value"],
                expected["p_greater_exact"],
            ]
        )


def test_golden_statistics_adjusted_p_values() -> None:
    golden = recorded("statistics.json")
    for p_values, expected in zip(golden["rows"]["p_values"], golden["expected"]["holm"], strict=True):
        assert [*holm(p_values).p_values] == near(expected["adjusted"])
        assert [*holm(p_values).rejected] == expected["reject_0.05"]
        assert [*bonferroni(p_values)] == near(expected["bonferroni"])
        assert [*benjamini_hochberg(p_values)] == near(expected["bh"])


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_sum_of_the_binomial_tail(b: int, c: int) -> None:
    tail = sum(math.comb(b + c, changed) for changed in range(min(b, c) + 1))
    assert mcnemar_exact(b, c) == pytest.approx(min(1.0, 2 * tail / 2 ** (b + c)), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_step_by_step(p_values: list[float]) -> None:
    found, rejected = holm(p_values), [False] * len(p_values)
    for step, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[number] * (len(p_values) - step) > 0.05:
            break
        rejected[number] = True
    assert [*found.rejected] == rejected
    assert all(p <= adjusted <= 1 for p, adjusted in zip(p_values, found.p_values, strict=True))


@given(st.floats(0, 1))
def test_a_p_value_never_reads_as_zero_nor_on_the_other_side_of_the_level(p: float) -> None:
    text = p_text(p)
    assert p_equals(p) == (f"p {text}" if text[0] in "<>" else f"p = {text}")
    if text == "< 0.001":
        assert p < 0.001
    else:
        assert float(text.removeprefix("> ")) > 0
        assert (p <= 0.05) == (not text.startswith(">") and float(text) <= 0.05)


def test_of_nothing() -> None:
    assert holm([]).p_values == bonferroni([]) == benjamini_hochberg([]) == ()
    assert mcnemar(0, 0).plain is None
    with pytest.raises(ValueError, match="two scores"):
        paired_permutation([1.0], [0.0])
    with pytest.raises(ValueError, match="two clusters"):
        clustered_standard_error([1.0, 0.0], ["a", "a"])


def test_many_pairs_are_sampled_and_the_seed_decides() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(40).tolist(), rng.random(40).tolist()
    found = paired_permutation(first, second, seed=1)
    assert found.arrangements == patient_swaps.MAX_ARRANGEMENTS
    assert found == paired_permutation(first, second, seed=1)
