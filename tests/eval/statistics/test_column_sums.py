import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.types import Interval, Question
from medtune.eval.metric import Metric, ParsedReply
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.statistics import Numbers, cluster_codes
from medtune.eval.statistics.column_sums import Recomputed, Sums, dense_sums, mean_of
from medtune.eval.statistics.intervals import statistic_gain_interval, statistic_interval

LABELS = ("a", "b", "c")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from([*LABELS, None])), min_size=2, max_size=30)


def parsed(pairs: list[tuple[str, str | None]]) -> list[ParsedReply]:
    return [
        ParsedReply(Question(f"q{n}", "m", "Which?", LABELS, true, "choice", f"p{n // 3}"), None, read)
        for n, (true, read) in enumerate(pairs)
    ]


@given(PAIRS, st.data())
def test_a_part_of_sums_is_the_metric_of_that_part(pairs: list[tuple[str, str | None]], data: st.DataObject) -> None:
    rows = parsed(pairs)
    part = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True))
    for metric in (accuracy(), macro_f1()):
        found = metric.on(rows).part(part).value()
        assert found == pytest.approx(metric.value([rows[number] for number in part]), abs=1e-12)


@pytest.mark.parametrize("metric", [accuracy(), macro_f1()])
def test_interval_of_sums_equals_the_recomputed_one(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    rows = parsed([(LABELS[rng.integers(3)], LABELS[rng.integers(3)]) for _ in range(60)])
    clusters, right = [row.question.patient_id for row in rows], [float(row.correct) for row in rows]

    def anew(numbers: Numbers) -> float:
        return metric.value([rows[number] for number in numbers])

    summed = statistic_interval(metric.on(rows), clusters, right=right)
    recomputed = statistic_interval(Recomputed(anew, len(rows)), clusters, right=right)
    assert summed == pytest.approx(recomputed, abs=1e-12)


def test_many_columns_give_the_same_interval_as_few() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(400)
    wide = Sums(
        rows=np.tile(np.arange(400), 2),
        columns=np.repeat([10_000, 0], 400),
        values=np.concatenate([values, np.ones(400)]),
        num_rows=400,
        width=10_001,
        finish=lambda sums: sums[..., 10_000] / sums[..., 0],
    )
    clusters = [f"p{n}" for n in range(400)]
    found = statistic_interval(wide, clusters, right=None)
    assert found == pytest.approx(statistic_interval(mean_of(values), clusters, right=None), abs=1e-12)


def test_totals_of_fractions_are_the_same_in_any_order() -> None:
    values = np.random.default_rng(0).random(1000)
    assert mean_of(values).value() == mean_of(values[::-1]).value()
    assert mean_of(values).totals()[0] == math.fsum(values)


def test_bounds_other_than_0_and_1_widen_in_their_own_units() -> None:
    ten = statistic_interval(mean_of([10.0] * 6), ["p"] * 6, right=None, bounds=Interval(0.0, 10.0))
    one = statistic_interval(mean_of([1.0] * 6), ["p"] * 6, right=None)
    assert ten == pytest.approx((10 * one.low, 10.0))
    phases = mean_of([0.0] * 6), mean_of([1.0] * 6)
    tens = mean_of([0.0] * 6), mean_of([10.0] * 6)
    gain = statistic_gain_interval(*phases, ["p"] * 6, right=None)
    assert gain.low < gain.high == 1.0
    wide = statistic_gain_interval(*tens, ["p"] * 6, right=None, bounds=Interval(0.0, 10.0))
    assert wide == pytest.approx((10 * gain.low, 10.0))


def test_a_patient_without_whom_the_statistic_has_no_value_is_not_left_out() -> None:
    table = np.zeros((20, 2))
    table[0] = 1.0, 1.0
    with np.errstate(invalid="ignore"):
        found = statistic_interval(
            dense_sums(table, lambda sums: sums[..., 0] / sums[..., 1]), [f"p{n}" for n in range(20)], right=None
        )
    assert found.high == 1.0


def test_statistics_need_a_row_per_question() -> None:
    with pytest.raises(ValueError, match="one row of the statistic per question"):
        Recomputed(lambda rows: 1.0, 1).without(cluster_codes(["p", "q"]), np.arange(2))
    with pytest.raises(ValueError, match="one row of the statistic per question"):
        statistic_interval(mean_of([1.0]), ["p", "q"], right=None)
    with pytest.raises(ValueError, match="at least one question"):
        mean_of([])
