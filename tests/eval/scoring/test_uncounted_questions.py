"""Tests that every output with scores by likelihood says which questions they leave out."""

import math
from dataclasses import replace
from pathlib import Path

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.comparing.compare import About, Side, compare
from medtune.eval.comparing.compare_file import compare_file
from medtune.eval.comparing.compare_text import notes
from medtune.eval.data_label import DataLabel
from medtune.eval.report.headline import headline
from medtune.eval.report.run_data import read_run
from medtune.eval.report.write import write_runs
from medtune.eval.results.build import gain_table, scores_file
from medtune.eval.scoring import baselines
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.report.folders import change_json, write_run

U2 = find_benchmark("u2_bench")
SAYS_SO = "Not counted: 3 questions without options (CVE 1, RG 1, CG 1)"


def _read(question: Question) -> Prediction:
    key = PredictionKey(question.id, "image", "likelihood", 0)
    logprobs = tuple(0.0 if option == question.answer else -math.inf for option in question.options)
    return Prediction(key, option_logprobs=logprobs)


def _phase(parser: str | None) -> PhaseScores:
    said = [
        Prediction(PredictionKey(question.id, "image", "generation", 0), text=question.answer)
        for question in U2.examples
    ]
    said += [_read(question) for question in U2.examples if question.options]
    return score_phase(U2.examples, said, U2, parser=parser)


def test_a_score_by_likelihood_counts_the_questions_that_it_leaves_out() -> None:
    found = _phase("likelihood")
    assert (found.overall.score.n, found.uncounted) == (5, {"CVE": 1, "RG": 1, "CG": 1})
    label = DataLabel("released", "ours")
    assert scores_file(found, label).uncounted == found.uncounted
    assert SAYS_SO in gain_table({"zero_shot": found}, None, U2, label=label)
    generated = _phase("robust")
    assert (generated.overall.score.n, generated.uncounted) == (8, {})
    assert "Not counted" not in gain_table({"zero_shot": generated}, None, U2, label=label)


def test_questions_that_the_metric_is_not_about_are_not_missed() -> None:
    m3d = find_benchmark("m3d_vqa")
    choices = [question for question in m3d.examples if question.options]
    assert len(choices) < len(m3d.examples)
    assert not score_phase(m3d.examples, [*map(_read, choices)], m3d, parser="likelihood").uncounted


def test_reports_say_it(prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    assert "Not counted" not in " ".join(headline(read_run(run), num_patients=None).sentences)
    change_json(run / "results.json", "phases", "final", "uncounted", value={"CVE": 2, "RG": 1})
    said = "Not counted: 3 questions without options (CVE 2, RG 1)"
    assert said in " ".join(headline(read_run(run), num_patients=None).sentences)
    write_runs([run], tmp_path / "several")
    assert said in (tmp_path / "several" / "report.md").read_text()


def test_comparisons_say_it() -> None:
    rows = tuple(_phase("likelihood").rows)
    about = About("one", "u2_bench 1.1", "hash", "test", "likelihood", DataLabel("released", "ours"))
    left = baselines.uncounted(U2.examples, rows, U2.primary_metric)
    one, two = (Side(replace(about, name=name), rows, left) for name in ("one", "two"))
    found = compare(one, two, U2)
    assert any(SAYS_SO in note for note in notes(found))
    assert compare_file(found).uncounted == {"CVE": 1, "RG": 1, "CG": 1}
    assert not any("Not counted" in note for note in notes(replace(found, uncounted={})))
