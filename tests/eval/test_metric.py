"""Tests metrics other than a share of right answers: an error in mm, a Dice score and corpus BLEU."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medtune.data.types import AnswerFormat, Prediction, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.compare import About, Side, compare
from medtune.eval.comparing.gain import Gains, gain_between, seeds_gain
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import Metric, ParsedReply, mean_of_rows, recomputed, sums_of_rows
from medtune.eval.metrics.bleu import bleu4
from medtune.eval.report.headline import headline
from medtune.eval.report.run_data import read_run
from medtune.eval.results.build import gain_table, results_file
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.score import PhaseScores, score_phase, score_rows
from medtune.eval.statistics import Floats
from tests.eval.answers import generated
from tests.eval.report.folders import change_json, write_run
from tests.eval.run_facts import run_facts

LABEL = DataLabel(provenance="released", prompts="ours")
SILENT_MM = 50.0
"""The error in mm of a reply without a number."""


def error_mm(row: ParsedReply) -> float:
    return SILENT_MM if row.parsed is None else abs(float(row.parsed) - float(row.question.answer))


def is_number(question: Question) -> bool:
    return question.answer_kind == "number"


def mae_mm() -> Metric:
    return Metric(mean_of_rows(error_mm), worst=math.inf, best=0.0, silent=SILENT_MM, covers=is_number)


def numeric(metrics: dict[str, Metric]) -> Benchmark:
    def render(question: Question, answer_format: AnswerFormat) -> Prompt:
        return Prompt(question.text, (), question.answer)

    def parse(reply: str, question: Question) -> str | None:
        return reply if reply.replace(".", "", 1).isdecimal() else None

    return Benchmark(
        title="Lengths",
        version="1.0",
        licence="none",
        url="https://example.invalid",
        citation="none",
        sources=("lengths",),
        facets=("task",),
        render=render,
        parsers={"number": parse},
        metrics=metrics,
        examples=(),
    )


LENGTHS = numeric({"mae_mm": mae_mm()})
ASKED = [
    Question(f"q{n}", "m", "How long?", (), str(20 + n), "number", f"p{n // 2}", {"task": "femur"}) for n in range(24)
]


def said(off_mm: float | None) -> list[Prediction]:
    """Returns replies with these errors in mm, 100 mm more for the first question; None gives no reply."""
    texts = ["" if off_mm is None else f"{float(asked.answer) + off_mm + 100 * (asked.id == 'q0')}" for asked in ASKED]
    return [generated(asked, text) for asked, text in zip(ASKED, texts, strict=True)]


def phase(off_mm: float | None) -> PhaseScores:
    return score_phase(ASKED, said(off_mm), LENGTHS, train=[replace(asked, answer="25") for asked in ASKED[:3]])


def test_an_error_without_limit_has_a_value_an_interval_and_baselines() -> None:
    overall = phase(2.0).overall
    assert overall.value == pytest.approx(2 + 100 / 24)
    assert overall.ci95 is not None
    assert 0 <= overall.ci95.low < overall.number < overall.ci95.high
    assert overall.baselines["majority"] == np.mean([abs(25 - (20 + n)) for n in range(24)])
    assert overall.baselines["random"] is overall.baselines["constant_letter"] is None
    silent = phase(None).overall
    assert (silent.value, silent.unparsable, silent.ci95) == (SILENT_MM, 24, None)


def written(phases: Mapping[str, PhaseScores], gain: Gains | None) -> dict[str, Any]:
    """Returns the content of results.json as it is written."""
    facts = run_facts(LABEL)
    made = results_file(phases, gain, LENGTHS, benchmark_name="lengths", model="nano", facts=facts)
    found: dict[str, Any] = json.loads(json_bytes(made))
    return found


def test_a_smaller_error_is_a_gain_whose_value_is_negative() -> None:
    before, after = phase(8.0), phase(2.0)
    gain = gain_between(before, after, LENGTHS)
    assert gain is not None
    assert gain.value == pytest.approx(-6)
    assert gain.ci95 == pytest.approx((-6, -6))
    read = written({"zero_shot": before, "final": after}, gain)
    assert read["primary"] == {"name": "mae_mm", "higher_is_better": False, "level_name": "mae_mm"}
    assert read["gain"]["by"]["task"]["femur"]["value"] == gain.value
    table = gain_table({"zero_shot": before, "final": after}, gain, LENGTHS, label=LABEL)
    assert "-6.000" in table
    assert "12.167" in table


def test_the_comparison_is_of_the_error_and_tests_no_right_answers() -> None:
    about = About("one", "lengths 1.0", "hash", "test", "number", LABEL)
    one, two = (Side(replace(about, name=name), phase(off_mm).rows) for name, off_mm in (("one", 8.0), ("two", 2.0)))
    found = compare(one, two, LENGTHS)
    assert (found.metric, found.both) == ("mae_mm", 24)
    before, after = found.overall.first, found.overall.second
    assert before is not None
    assert after is not None
    assert before - after == pytest.approx(6)
    assert found.overall.paired.value == pytest.approx(-6)
    assert found.overall.mcnemar_p is None
    assert found.overall.paired.permutation_p <= 0.05, "the error itself is tested, by patients"


def test_seeds_vary_in_mm() -> None:
    rows = {off_mm: phase(off_mm).rows for off_mm in (8.0, 3.0, 2.0)}
    found = seeds_gain([(rows[8.0], rows[2.0]), (rows[8.0], rows[3.0])], mae_mm())
    assert found.value == pytest.approx(-5.5)
    assert found.per_seed == pytest.approx((-6, -5))


@pytest.mark.parametrize(("before", "after", "verdict"), [(8.0, 2.0, "gain"), (2.0, 8.0, "loss")])
def test_the_report_knows_which_way_an_error_is_better(
    prepared_tiny: Path, tmp_path: Path, before: float, after: float, verdict: str
) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    phases = {"zero_shot": phase(before), "final": phase(after)}
    gain = gain_between(phases["zero_shot"], phases["final"], LENGTHS)
    table = gain_table(phases, gain, LENGTHS, label=LABEL)
    assert "lower is better: a change below 0 is for the better" in table
    assert "\nchange " in table
    assert "\ngain " not in table
    results = written(phases, gain)
    for key in ("primary", "phases", "gain"):
        change_json(run / "results.json", key, value=results[key])
    found = headline(read_run(run), num_patients=12)
    assert found.verdict == verdict
    assert "(lower is better)" in found.metric
    assert found.before is not None
    assert (float(found.before) > float(found.after)) == (before > after)
    assert any(each.startswith("The 95 % interval excludes zero, and the test that swaps") for each in found.sentences)


def test_the_best_position_of_an_error_is_the_smallest() -> None:
    letters = [Question(f"q{n}", "m", "?", ("1", "9", "30"), "10", "choice", f"p{n}") for n in range(4)]
    error = Metric(mean_of_rows(error_mm), worst=math.inf, best=0.0)
    nearest = replace(LENGTHS, metrics={"error": error}, parsers={"none": lambda reply, question: None})
    assert score_phase(letters, [], nearest).overall.baselines["constant_letter"] == 1


def words(text: str | None) -> set[str]:
    return set((text or "").split())


def dice(row: ParsedReply) -> float:
    said, true = words(row.parsed), words(row.question.answer)
    return 2 * len(said & true) / (len(said) + len(true))


def dice_of_counts(sums: Floats) -> Floats:
    found: Floats = 2 * sums[..., 0] / sums[..., 1]
    return found


def texts(said: Sequence[str | None]) -> list[ParsedReply]:
    truths = ["the liver is of normal size", "a cyst in the left lobe of the liver", "no focal lesion is seen here"]
    return [
        ParsedReply(Question(f"q{n}", "m", "Report?", (), truths[n % 3], "text", f"p{n // 2}"), None, text)
        for n, text in enumerate(said)
    ]


ROWS = texts(["the liver is of normal size", "a cyst in the liver", None, "the liver is large", "no lesion"] * 3)


def test_dice_is_a_mean_of_rows_or_of_counts() -> None:
    mean, pooled = Metric(mean_of_rows(dice)), Metric(sums_of_rows(_overlap, dice_of_counts))
    assert mean.value(ROWS) == pytest.approx(np.mean([dice(row) for row in ROWS]))
    for metric in (mean, pooled):
        found = score_rows(ROWS, metric)
        assert found.ci95 is not None
        assert found.ci95.low < found.number < found.ci95.high


def _overlap(row: ParsedReply) -> tuple[int, int]:
    said, true = words(row.parsed), words(row.question.answer)
    return len(said & true), len(said) + len(true)


@pytest.mark.parametrize("metric", [bleu4(), Metric(sums_of_rows(_overlap, dice_of_counts))])
def test_any_function_of_rows_scores_as_the_same_metric_of_sums(metric: Metric) -> None:
    anew = Metric(recomputed(metric.value))
    by_sums, by_rows = score_rows(ROWS, metric), score_rows(ROWS, anew)
    assert by_rows.value == by_sums.value
    assert by_rows.ci95 == pytest.approx(by_sums.ci95, abs=0.05)
    assert anew.on(ROWS).part([4, 0]).value() == metric.value([ROWS[4], ROWS[0]])
    assert anew.on(ROWS).part([4, 0, 2]).part([1]).value() == metric.value([ROWS[0]])


def test_a_metric_about_other_questions_is_otherwise_the_same() -> None:
    error = mae_mm()
    other = error.only(lambda question: question.id == "q1")
    assert [row.question.id for row in other.covered(phase(2.0).rows)] == ["q1"]
    assert replace(other, covers=error.covers) == error


def root_of_mean(sums: Floats) -> Floats:
    root: Floats = np.sqrt(sums[..., 0] / sums[..., 1])
    return root


def squares(row: ParsedReply) -> tuple[float, float]:
    return float(row.parsed or 0) ** 2, 1.0


def numbers(texts: list[str], patients: int) -> list[ParsedReply]:
    return [
        ParsedReply(Question(f"q{n}", "m", "How long?", (), "0", "number", f"p{n % patients}"), None, text)
        for n, text in enumerate(texts)
    ]


def test_a_metric_without_limit_has_an_interval_unless_all_rows_agree() -> None:
    error = Metric(sums_of_rows(squares, root_of_mean), worst=math.inf, best=0.0)
    found = score_rows(numbers(["1", "2", "30", "4"], 4), error)
    assert found.ci95 is not None
    assert found.ci95.low < found.number < found.ci95.high
    assert score_rows(numbers(["2", "2"], 2), error).ci95 is None
    assert score_rows(numbers(["inf"], 1), error).ci95 is None


def test_a_metric_outside_its_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="within"):
        score_rows(numbers(["3"], 1), Metric(sums_of_rows(squares, root_of_mean)))
