"""Tests that every score counts the replies of all passes, with each pass scored as a whole."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from medtune.benchmarks import find_benchmark, names
from medtune.data.types import Prediction, PredictionKey, Score
from medtune.eval.benchmark import Benchmark
from medtune.eval.metric import Metric, recomputed
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.parsed_reply import ParsedReply, passes_of
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase, score_rows
from medtune.eval.statistics.intervals import mean_interval
from tests.eval.repeats.asked_again import ASKED, BUSI, FIVE, LABELS, generated, passes, wrong

PATIENTS = [question.patient_id for question in ASKED]
WITH_F1 = replace(BUSI, metrics={**BUSI.metrics, "macro_f1": macro_f1()})


def read(predictions: list[Prediction], benchmark: Benchmark = BUSI) -> list[ParsedReply]:
    return parse_replies(ASKED, predictions, benchmark, reading="generation")["robust"]


def test_the_score_is_the_mean_of_five_passes_and_no_reply_is_ignored() -> None:
    score = score_phase(ASKED, passes(FIVE), BUSI).overall.score
    assert score.value == pytest.approx((2 + 4 + 6 + 8 + 10) / 60)
    assert (score.n, score.repeats) == (12, 5)
    assert score.repeat_sd == pytest.approx(statistics.stdev([2 / 12, 4 / 12, 6 / 12, 8 / 12, 10 / 12]))
    unread = [replace(each, text="hm") if each.key.repeat else each for each in passes(FIVE)]
    score = score_phase(ASKED, unread, BUSI).overall.score
    assert score.value == pytest.approx(2 / 60)
    assert score.unparsable == 48


def assert_equal(found: Score, wanted: Score) -> None:
    """The order in which numbers are added moves the last digit of an interval."""
    assert replace(found, ci95=None) == replace(wanted, ci95=None)
    assert found.ci95 == pytest.approx(wanted.ci95, abs=1e-12)


def test_the_order_of_passes_and_their_numbers_change_nothing() -> None:
    found = score_phase(ASKED, passes(FIVE), BUSI).overall.score
    assert_equal(score_phase(ASKED, passes(FIVE[::-1])[::-1], BUSI).overall.score, found)
    renumbered = [replace(each, key=each.key._replace(repeat=3 + 2 * each.key.repeat)) for each in passes(FIVE)]
    assert_equal(score_phase(ASKED, renumbered, BUSI).overall.score, found)


def test_five_equal_passes_score_as_one() -> None:
    one = score_phase(ASKED, passes(FIVE[2:3]), WITH_F1)
    five = score_phase(ASKED, passes([FIVE[2]] * 5), WITH_F1)
    assert_equal(five.overall.score, replace(one.overall.score, repeats=5, repeat_sd=0.0))
    assert five.metrics["image"]["robust"]["macro_f1"].ci95 == pytest.approx(
        one.metrics["image"]["robust"]["macro_f1"].ci95, abs=1e-12
    )
    assert one.overall.score.repeat_sd is None


def test_each_pass_is_scored_as_a_whole_and_not_all_replies_together() -> None:
    rows = read(passes(FIVE))
    by_sklearn = [
        f1_score([row.question.answer for row in each], [row.parsed for row in each], average="macro", zero_division=0)
        for each in passes_of(rows)
    ]
    assert macro_f1().value(rows) == pytest.approx(np.mean(by_sklearn), abs=1e-12)
    pooled = [reply for row in rows for reply in row.passes]
    assert macro_f1().value(rows) != pytest.approx(macro_f1().value(pooled), abs=1e-3)


@pytest.mark.parametrize("name", names())
def test_every_metric_of_every_benchmark_is_the_mean_of_its_passes(name: str) -> None:
    benchmark = find_benchmark(name)
    said = [
        Prediction(
            PredictionKey(question.id, "image", "generation", repeat),
            text=question.answer if (number + repeat) % 3 else (wrong(question) if question.options else "no idea 7"),
        )
        for repeat in range(3)
        for number, question in enumerate(benchmark.examples)
    ]
    for parsed in parse_replies(benchmark.examples, said, benchmark, reading="generation").values():
        for metric in benchmark.metrics.values():
            rows = [row for row in metric.covered(parsed) if not row.unscored]
            if rows:
                alone = [metric.value(each) for each in passes_of(rows)]
                assert metric.value(rows) == pytest.approx(np.mean(alone), abs=1e-12, nan_ok=True)


def test_the_interval_of_a_mean_is_that_of_each_questions_mean() -> None:
    rows = read(passes(FIVE))
    shares = [sum(right[number] for right in FIVE) / 5 for number in range(len(ASKED))]
    assert score_rows(rows, BUSI.primary_metric).ci95 == pytest.approx(mean_interval(shares, PATIENTS), abs=1e-12)


def test_a_recomputed_metric_has_the_mean_of_the_passes_on_every_part() -> None:
    anew = Metric(recomputed(lambda rows: sum(row.correct for row in rows) / len(rows)))
    rows = read(passes(FIVE))
    measured, summed = anew.on(rows), BUSI.primary_metric.on(rows)
    for part in ([0, 1, 2], [11, 3], [*range(12)]):
        assert measured.part(part).value() == pytest.approx(summed.part(part).value(), abs=1e-12)
    found = score_rows(rows, anew).ci95
    assert found == pytest.approx(score_rows(rows, BUSI.primary_metric).ci95, abs=0.05)


def test_a_missing_reply_counts_as_unanswered_in_its_pass_and_is_stated() -> None:
    some = [each for each in passes(FIVE) if each.key != ("q0", "image", "generation", 4)]
    phase = score_phase(ASKED, some, BUSI)
    assert phase.overall.score.value == pytest.approx(29 / 60)
    assert (phase.overall.unanswered, phase.overall.partly_answered) == (1, 1)
    alone = [each for each in some if each.key.question_id != "q1"]
    phase = score_phase(ASKED, alone, BUSI)
    assert (phase.overall.unanswered, phase.overall.partly_answered) == (6, 1)


def test_levels_baselines_and_conditions_count_all_passes() -> None:
    said = [*passes(FIVE), *passes(FIVE[3:], condition="text_only")]
    phase = score_phase(ASKED, said, BUSI)
    assert phase.by["task"]["diagnosis"].score == phase.overall.score
    assert phase.overall.baselines["text_only"] == pytest.approx((8 + 10) / 24)
    assert phase.metrics["text_only"]["robust"]["accuracy"].repeats == 2
    assert phase.other_answers == {"text_only, generation": 24}


def test_a_question_with_one_reply_of_a_pass_unread_is_right_by_more_than_half() -> None:
    replies = [("benign", 0), ("benign", 1), ("hm", 2), ("normal", 3)]
    (row, *_) = read([generated(ASKED[0], text, repeat) for text, repeat in replies])
    assert (row.share_right, row.correct, len(row.passes)) == (0.5, False, 4)
    assert row.is_answered


def test_calibration_counts_the_replies_of_all_passes() -> None:
    said = [
        Prediction(
            PredictionKey(question.id, "image", "likelihood", repeat),
            options_shown=LABELS,
            option_logprobs=(-0.1, -3.0, -4.0),
            option_tokens=(1, 1, 1),
        )
        for repeat in range(2)
        for question in ASKED
    ]
    found = score_phase(ASKED, said, BUSI).calibration
    assert found is not None
    assert sum(each.n for each in found.bins) == 24


def test_rows_with_other_numbers_of_passes_count_each_reply_equally_often() -> None:
    once, twice, thrice = (read(passes(FIVE[:number]))[2:4] for number in (1, 2, 3))
    found = BUSI.primary_metric.value([*once, *twice, *thrice])
    assert found == pytest.approx((0 + 0 + 1 / 2 + 1 / 2 + 2 / 3 + 2 / 3) / 6)
