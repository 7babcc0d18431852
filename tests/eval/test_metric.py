from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medtune.eval.statistics.clustered import Rows, recomputed_interval, summed_gain_interval, summed_interval
from medtune.eval.statistics.summed_metric import Floats, Sums, dense_sums, mean_of

from medtune.data.types import Interval, Question
from medtune.eval.benchmark import Scale, SummedMetric, measure
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.parsed_reply import ParsedReply
from medtune.eval.scoring.score import score_rows

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
    for metric in (accuracy, macro_f1):
        assert measure(metric, rows)(part) == pytest.approx(metric([rows[number] for number in part]), abs=1e-12)


def test_a_plain_metric_is_measured_on_the_rows_themselves() -> None:
    rows = parsed([("a", "a"), ("b", "a"), ("c", "c")])
    assert measure(lambda chosen: float(len(chosen)), rows)([0, 2]) == 2.0


@pytest.mark.parametrize("metric", [accuracy, macro_f1])
def test_interval_of_sums_equals_the_recomputed_one(metric: SummedMetric) -> None:
    rng = np.random.default_rng(0)
    rows = parsed([(LABELS[rng.integers(3)], LABELS[rng.integers(3)]) for _ in range(60)])
    clusters, right = [row.question.patient_id for row in rows], [float(row.correct) for row in rows]

    def anew(numbers: Rows) -> float:
        return metric([rows[number] for number in numbers])

    summed = summed_interval(metric.sums(rows), clusters, right=right, resamples=300)
    assert summed == pytest.approx(recomputed_interval(anew, right, clusters, resamples=300), abs=1e-12)


def test_many_columns_give_the_same_interval_as_few() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(400)
    wide = Sums(
        rows=np.arange(400),
        columns=10_000 * np.ones(400, dtype=np.intp),
        values=values,
        num_rows=400,
        width=10_001,
        finish=lambda sums: sums[..., 10_000] / 400,
    )
    clusters = [f"p{n}" for n in range(400)]
    found = summed_interval(wide, clusters, right=None, resamples=200)
    assert found == pytest.approx(summed_interval(mean_of(values), clusters, right=None, resamples=200), abs=1e-12)


def test_totals_of_fractions_are_the_same_in_any_order() -> None:
    values = np.random.default_rng(0).random(1000)
    assert mean_of(values).value() == mean_of(values[::-1]).value()
    assert mean_of(values).totals()[0] == math.fsum(values)


def root_of_mean(sums: Floats) -> Floats:
    root: Floats = np.sqrt(sums[..., 0] / sums[..., 1])
    return root


def squares(rows: Sequence[ParsedReply]) -> Sums:
    return dense_sums(np.array([[float(row.parsed or 0) ** 2, 1.0] for row in rows]), root_of_mean)


def numbers(texts: list[str], patients: int) -> list[ParsedReply]:
    return [
        ParsedReply(Question(f"q{n}", "m", "How long?", (), "0", "number", f"p{n % patients}"), None, text)
        for n, text in enumerate(texts)
    ]


def test_a_metric_without_limit_has_an_interval_unless_all_resamples_agree() -> None:
    error = SummedMetric(squares)
    scale = Scale(worst=math.inf, best=0.0)
    found = score_rows(numbers(["1", "2", "30", "4"], 4), error, scale=scale)
    assert found.ci95 is not None
    assert found.ci95.low < found.value < found.ci95.high
    assert score_rows(numbers(["2", "2"], 2), error, scale=scale).ci95 is None
    assert score_rows(numbers(["inf"], 1), error, scale=scale).ci95 is None


def test_a_metric_outside_its_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="within"):
        score_rows(numbers(["3"], 1), SummedMetric(squares))


def test_bounds_other_than_0_and_1_widen_in_their_own_units() -> None:
    ten = summed_interval(mean_of([10.0] * 6), ["p"] * 6, right=None, bounds=Interval(0.0, 10.0))
    one = summed_interval(mean_of([1.0] * 6), ["p"] * 6, right=None)
    assert ten == pytest.approx((10 * one.low, 10.0))
    phases = mean_of([0.0] * 6), mean_of([1.0] * 6)
    tens = mean_of([0.0] * 6), mean_of([10.0] * 6)
    gain = summed_gain_interval(*phases, ["p"] * 6, right=None)
    assert gain.low < gain.high == 1.0
    wide = summed_gain_interval(*tens, ["p"] * 6, right=None, bounds=Interval(0.0, 10.0))
    assert wide == pytest.approx((10 * gain.low, 10.0))


def test_resamples_that_hold_no_row_of_the_statistic_are_left_out() -> None:
    table = np.zeros((20, 2))
    table[0] = 1.0, 1.0
    with np.errstate(invalid="ignore"):
        found = summed_interval(
            dense_sums(table, lambda sums: sums[..., 0] / sums[..., 1]), [f"p{n}" for n in range(20)], right=None
        )
    assert found.high == 1.0


def test_sums_need_a_row_per_question() -> None:
    with pytest.raises(ValueError, match="one row of sums per question"):
        summed_interval(mean_of([1.0]), ["p", "q"], right=None)
    with pytest.raises(ValueError, match="at least one question"):
        mean_of([])
