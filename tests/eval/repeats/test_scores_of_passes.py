"""Tests that every score and table counts the replies of all passes, with each pass scored as a whole."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from medtune.benchmarks import find_benchmark, names
from medtune.data.types import Condition, Prediction, PredictionKey
from medtune.eval.benchmark import Benchmark, no_tables
from medtune.eval.evidence import Evidence
from medtune.eval.metric import Metric, ParsedReply, passes_of, recomputed
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.results.phase_schema import Measured
from medtune.eval.scoring.parse_replies import parse_replies
from medtune.eval.scoring.score import score_phase, score_rows
from medtune.eval.scoring.tables import Table, mean_tables, table_text
from medtune.eval.statistics.intervals import mean_interval
from tests.eval.answers import generated, wrong
from tests.eval.free_answers import FREE, Said, asked, predicted
from tests.eval.repeats.asked_again import ASKED, BUSI, FIVE, LABELS, passes

PATIENTS = [question.patient_id for question in ASKED]


WITH_F1 = replace(BUSI, metrics={**BUSI.metrics, "macro_f1": macro_f1()})


def read(predictions: list[Prediction], benchmark: Benchmark = BUSI) -> list[ParsedReply]:
    return parse_replies(ASKED, predictions, benchmark, reading="generation")["robust"]


def test_the_score_is_the_mean_of_five_passes_and_no_reply_is_ignored() -> None:
    score = score_phase(ASKED, passes(FIVE), BUSI).overall
    assert score.value == pytest.approx((2 + 4 + 6 + 8 + 10) / 60)
    assert (score.n, score.repeats) == (12, 5)
    assert score.repeat_sd == pytest.approx(statistics.stdev([2 / 12, 4 / 12, 6 / 12, 8 / 12, 10 / 12]))
    unread = [replace(each, text="hm") if each.key.repeat else each for each in passes(FIVE)]
    score = score_phase(ASKED, unread, BUSI).overall
    assert score.value == pytest.approx(2 / 60)
    assert score.unparsable == 48


def assert_equal(found: Measured, wanted: Measured) -> None:
    """The order in which numbers are added moves the last digit of an interval."""
    assert replace(found, ci95=None) == replace(wanted, ci95=None)
    assert found.ci95 == pytest.approx(wanted.ci95, abs=1e-12)


def test_the_order_of_passes_and_their_numbers_change_nothing() -> None:
    found = score_phase(ASKED, passes(FIVE), BUSI).overall
    assert_equal(score_phase(ASKED, passes(FIVE[::-1])[::-1], BUSI).overall, found)
    renumbered = [replace(each, key=each.key._replace(repeat=3 + 2 * each.key.repeat)) for each in passes(FIVE)]
    assert_equal(score_phase(ASKED, renumbered, BUSI).overall, found)


def test_five_equal_passes_score_as_one() -> None:
    one = score_phase(ASKED, passes(FIVE[2:3]), WITH_F1)
    five = score_phase(ASKED, passes([FIVE[2]] * 5), WITH_F1)
    assert_equal(five.overall, replace(one.overall, repeats=5, repeat_sd=0.0))
    assert five.metrics["image"]["robust"]["macro_f1"].ci95 == pytest.approx(
        one.metrics["image"]["robust"]["macro_f1"].ci95, abs=1e-12
    )
    assert one.overall.repeat_sd is None


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
        generated(
            question,
            question.answer if (number + repeat) % 3 else (wrong(question) if question.options else "no idea 7"),
            repeat,
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
    assert phase.overall.value == pytest.approx(29 / 60)
    assert (phase.overall.unanswered, phase.overall.partly_answered) == (1, 1)
    alone = [each for each in some if each.key.question_id != "q1"]
    phase = score_phase(ASKED, alone, BUSI)
    assert (phase.overall.unanswered, phase.overall.partly_answered) == (6, 1)


def test_levels_baselines_and_conditions_count_all_passes() -> None:
    said = [*passes(FIVE), *passes(FIVE[3:], condition="text_only")]
    phase = score_phase(ASKED, said, BUSI)
    assert phase.by["task"]["diagnosis"] == phase.overall
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


GAUGE = find_benchmark("fetal_gauge")


def counted(evidence: Evidence) -> Sequence[Table]:
    """Returns a table that a benchmark makes by hand from single replies."""
    rows = evidence.rows("image")
    right = sum(row.parsed == row.question.answer for row in rows)
    blind = sum(row.parsed == row.question.answer for row in evidence.rows("text_only"))
    replies = len({each.key for each in evidence.predictions})
    return [Table("By hand", ("who", "right", "blind", "n", "replies"), (("ours", right, blind, len(rows), replies),))]


def votes(evidence: Evidence) -> Sequence[Table]:
    return [Table("Votes", ("n",), ((sum(len(row.passes) for row in evidence.rows("image")),),))]


def test_a_table_made_from_single_replies_is_the_mean_of_the_passes() -> None:
    by_hand = replace(BUSI, tables=counted, repeat_tables=votes)
    said = [*passes(FIVE), *passes(FIVE[:1], condition="text_only")]
    table, voted = score_phase(ASKED, said, by_hand).tables
    # Right in the passes 2, 4, 6, 8, 10; the one pass without the image stands beside each of the five.
    assert table.rows == (("ours", 6.0, 2, 12, 24),)
    assert "Each cell is the mean of 5 passes." in table_text(table)
    assert voted.rows == ((60,),)
    alone, _ = score_phase(ASKED, passes(FIVE[:1]), by_hand).tables
    assert alone.rows == (("ours", 2, 0, 12, 12),)
    assert alone.notes == ()


def test_each_pass_of_every_condition_counts_equally_often() -> None:
    by_hand = replace(BUSI, tables=counted)
    said = [*passes(FIVE[:2]), *passes(FIVE[:3], condition="text_only")]
    (table,) = score_phase(ASKED, said, by_hand).tables
    assert table.rows[0][:3] == ("ours", 3.0, 4.0)


def test_ranks_texts_and_missing_values_of_passes_are_kept_apart() -> None:
    columns = ("model", "value", "verdict", "rank", "other")
    first = Table(
        "T", columns, (("ours", 0.5, "collapsed", 3, None), ("theirs", 0.6, "", 1, 0.1)), ("Same.", "Rank 3.")
    )
    second = Table("T", columns, (("ours", 0.7, "", 1, 0.5), ("theirs", 0.6, "", 1, 0.1)), ("Same.", "Rank 1."))
    (found,) = mean_tables([[first], [second]])
    assert found.rows == (("ours", 0.6, "collapsed / -", "1-3", None), ("theirs", 0.6, "", 1, 0.1))
    assert found.notes == ("Same.", "Pass 1: Rank 3. Pass 2: Rank 1.", "Each cell is the mean of 2 passes.")
    assert mean_tables([[first], [first]]) == [first]


def test_rows_that_a_pass_lacks_are_matched_by_their_texts_and_have_no_mean() -> None:
    first = Table("T", ("set", "value"), (("a", 0.5), ("b", 0.1)))
    second = Table("T", ("set", "value"), (("b", 0.3),))
    (found, other) = mean_tables([[first, replace(first, title="U")], [second]])
    assert found.rows == (("a", None), ("b", 0.2))
    assert other.rows == first.rows
    assert other.notes == ("Made of 1 of the 2 passes; the others have no such table.",)


def test_the_paper_table_of_a_benchmark_shows_the_mean_of_its_passes() -> None:
    asked = GAUGE.examples
    said = [
        generated(question, question.answer if repeat else wrong(question), repeat)
        for repeat in range(4)
        for question in asked
    ]
    table = score_phase(asked, said, GAUGE).tables[0]
    ours = next(row for row in table.rows if str(row[0]).startswith("ours"))
    assert ours[-2] == pytest.approx(0.75)


@pytest.mark.parametrize("name", names())
def test_equal_passes_make_the_tables_of_a_single_pass(name: str) -> None:
    benchmark = replace(find_benchmark(name), repeat_tables=no_tables)
    asked = benchmark.examples
    asked_times: dict[Condition, int] = {"image": 3, "text_only": 2}
    said = [
        generated(question, question.answer if number % 2 else "hm", repeat, condition=condition)
        for condition, num_passes in asked_times.items()
        for repeat in range(num_passes)
        for number, question in enumerate(asked)
    ]
    once = [each for each in said if not each.key.repeat]
    assert score_phase(asked, said, benchmark).tables == score_phase(asked, once, benchmark).tables


def in_passes(*passes: tuple[Said, ...]) -> list[Prediction]:
    return [
        replace(each, key=each.key._replace(repeat=repeat))
        for repeat, said in enumerate(passes)
        for each in predicted(said)
    ]


def test_a_question_with_an_answer_that_waits_in_any_pass_is_unscored() -> None:
    said = in_passes((True, True, False, True), (True, "words", False, False))
    phase = score_phase(asked((True,) * 4), said, FREE)
    score = phase.overall
    assert (score.n, score.unscored, score.repeats, phase.unscored) == (3, 1, 2, 1)
    assert score.value == pytest.approx((1 + 0 + 0.5) / 3)
    assert score.repeat_sd == pytest.approx((2 / 3 - 1 / 3) / 2**0.5)


def test_the_judges_table_shows_the_mean_points_of_all_passes() -> None:
    benchmark = find_benchmark("ctlesionvqa")
    (phrase,) = [each for each in benchmark.examples if each.answer_kind == "text"]
    questions = [replace(phrase, id=f"q{number}", patient_id=f"p{number}") for number in range(3)]
    points = {("q0", 0): 1, ("q0", 1): 0, ("q1", 0): 1, ("q1", 1): 1, ("q2", 0): 1}
    said = [
        Prediction(
            PredictionKey(id_, "image", "generation", repeat),
            text="words",
            verdict=json.dumps({"points": found, "explanation": "."}),
        )
        for (id_, repeat), found in points.items()
    ]
    table = next(
        each
        for each in score_phase(questions, said, benchmark).tables
        if each.title == "Phrases in free text, by a judge"
    )
    name, value, _, _, n, waiting = table.rows[-1]
    # The second answer to the third question is missing, which has no points.
    assert value == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert (name, n, waiting) == ("all", 3, 0)
    assert table.notes[-1] == "Points: mean of 2 passes."
    waits = [replace(each, verdict=None) if each.key.repeat else each for each in said]
    table = next(
        each
        for each in score_phase(questions, waits, benchmark).tables
        if each.title.startswith("Phrases in free text")
    )
    assert table.rows[-1][4:] == (1, 2)
