"""Tests that the primary score takes each question by its own reading, and that outputs say how many it counts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel
from medtune.eval.report.headline import headline
from medtune.eval.report.run_data import read_run
from medtune.eval.report.write import write_runs
from medtune.eval.results.build import gain_table, scores_file
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.report.folders import change_json, write_run

COMPOSITES = ("u2_bench", "ctlesionvqa")


def _scores(
    benchmark: Benchmark, *, options: bool, texts: bool, kept: Callable[[Question], object] = lambda _: True
) -> PhaseScores:
    """Returns the scores of likelihoods of the options and replies to all, each kind right or wrong throughout."""
    asked, said = [question for question in benchmark.examples if kept(question)], list[Prediction]()
    for question in asked:
        right = texts and not question.options
        key = PredictionKey(question.id, "image", "generation", 0)
        said.append(Prediction(key, text=benchmark.render(question, "text").target if right else "?"))
        if question.options:
            logprobs = tuple(0.0 if (each == question.answer) == options else -9.0 for each in question.options)
            said.append(Prediction(key._replace(reading="likelihood"), option_logprobs=logprobs))
    return score_phase(asked, said, benchmark.for_part(asked))


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_takes_each_question_by_its_own_reading(name: str) -> None:
    benchmark = find_benchmark(name)
    for options, texts in ((True, True), (True, False), (False, True), (False, False)):
        found = _scores(benchmark, options=options, texts=texts)
        assert (found.parser, found.overall.n) == ("likelihood", len(benchmark.examples))
        value = round(found.overall.number, 6)
        assert (value == 1) == (options and texts)
        assert (value == 0) == (not options and not texts)


def test_a_composite_that_lacks_a_part_is_not_printed_under_its_name() -> None:
    benchmark = find_benchmark("u2_bench")
    found = _scores(benchmark, options=True, texts=False, kept=lambda question: question.options)
    assert all("u2" not in name for parsers in found.metrics.values() for names in parsers.values() for name in names)
    replied = _scores(benchmark, options=True, texts=True)
    free = [row for row in replied.rows if not row.question.options]
    answers = [row.prediction for row in free if row.prediction]
    conditions = [replace(each, key=each.key._replace(condition="text_only")) for each in answers]
    found = score_phase([row.question for row in free], [*answers, *conditions], benchmark)
    assert all("u2_score" not in names for parsers in found.metrics.values() for names in parsers.values())


def test_the_questions_outside_the_primary_metric_are_counted_and_scored() -> None:
    m3d = find_benchmark("m3d_vqa")
    found = _scores(m3d, options=True, texts=True)
    covered = sum(map(m3d.primary_metric.covers, m3d.examples))
    assert (found.overall.n, found.asked) == (covered, len(m3d.examples))
    assert covered < found.asked
    phase = scores_file(found, DataLabel(provenance="released", prompts="ours"))
    others = sum(each.n + each.unscored for each in phase.outside.values())
    assert others == found.asked - covered
    assert found.outside.keys() <= m3d.metrics.keys()
    text = gain_table({"zero_shot": found}, None, m3d, label=DataLabel(provenance="released", prompts="ours"))
    assert f"{covered} of {found.asked}" in text
    assert all(name in text for name in found.outside)


def test_reports_say_how_many_questions_are_counted(prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    counted = read_run(run).last.overall.n
    outside = {"bleu4": {"n": 2, "unparsable": 0, "value": 0.25}}
    change_json(run / "results.json", "phases", "final", "outside", value=outside)
    change_json(run / "results.json", "phases", "final", "asked", value=counted + 3)
    said = "Beside it: bleu4 0.250 on 2 questions; no metric is about 1 questions."
    found = headline(read_run(run), num_patients=None)
    assert said in " ".join(found.sentences)
    assert f"{counted:,} of {counted + 3:,} questions" in str(found)
    write_runs([run], tmp_path / "several")
    text = (tmp_path / "several" / "report.md").read_text()
    assert said in text
    assert f"{counted:,} of {counted + 3:,}" in text
