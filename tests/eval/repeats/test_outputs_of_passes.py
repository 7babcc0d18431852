"""Tests `medtune score` and the report on questions that were asked in several passes."""

import json
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.read import open_prepared
from medtune.eval.comparing.gain import gain_between
from medtune.eval.predictions.files import format_line
from medtune.eval.report.write import write_report, write_runs
from medtune.eval.results.build import results_file
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import score_phase
from medtune.trainer.commands.cli import main
from medtune.trainer.training.loggers import phase_metrics
from tests.eval.repeats.asked_again import generated, wrong
from tests.eval.report.folders import LABEL, write_run
from tests.eval.run_facts import run_facts

BUSI = find_benchmark("busi")


def test_score_counts_every_repeat_of_a_file(
    prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = open_prepared(prepared_tiny).questions("test")
    file = tmp_path / "theirs.jsonl"
    rows = [
        {"question_id": question.id, "repeat": repeat, "text": question.answer if repeat < 2 else "hm"}
        for repeat in range(5)
        for question in questions
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    assert main(["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]) == 0
    said = capsys.readouterr().out
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert overall["value"] == pytest.approx(2 / 5)
    assert (overall["n"], overall["repeats"], overall["unparsable"]) == (9, 5, 26)
    assert (overall["unanswered"], overall["partly_answered"]) == (1, 1)
    assert "theirs: mean of 5 passes (standard deviation between passes 0.548)." in said
    assert "26 unparsable and 1 unanswered of 45 replies to 9 questions" in said
    assert "theirs: 1 questions have fewer than 5 replies" in said


def repeated_run(run: Path, data: Path) -> Path:
    """Returns a run folder whose phases were asked three and two times."""
    write_run(run, data)
    prepared = open_prepared(data)
    asked, train = prepared.questions("test"), prepared.questions("train")
    phases = {}
    for name, num_passes in (("zero_shot", 3), ("final", 2)):
        said = [
            generated(
                each, each.answer if (number + repeat) % 3 == 0 or (name == "final" and repeat) else wrong(each), repeat
            )
            for repeat in range(num_passes)
            for number, each in enumerate(asked)
        ]
        (run / name / "predictions.jsonl").write_bytes(b"".join(map(format_line, said)))
        write_parsed(run / name / "parsed.jsonl", asked, said, BUSI)
        phases[name] = score_phase(asked, said, BUSI, train=train)
    gain = gain_between(phases["zero_shot"], phases["final"], BUSI)
    facts = run_facts(LABEL, data_hash=prepared.data_hash)
    results = results_file(phases, gain, BUSI, benchmark_name="busi", model="nano_pocket", facts=facts)
    write_document(run / "results.json", results)
    return run


def test_the_report_says_of_how_many_passes_its_scores_are_the_mean(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [repeated_run(tmp_path / name, prepared_tiny) for name in ("a", "b")]
    page = write_report(runs[0], paper_of).read_text()
    assert "(mean of 2 passes)" in page
    assert "Scores are the mean of 2 passes (standard deviation between passes 0.4" in page
    assert "zero-shot: mean of 3 passes" in page
    assert "Each question was asked 3 times; the first reply is shown and counted here" in page
    assert "image, robust: mean of 3 passes" in page
    text = (runs[0] / "report.md").read_text()
    assert "zero-shot: mean of 3 passes" in text
    assert "a: zero-shot: mean of 3 passes" in write_runs(runs, tmp_path / "several.html").read_text()


def test_a_run_asked_once_says_nothing_of_passes(prepared_tiny: Path, tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run", prepared_tiny), paper_of).read_text()
    assert "passes" not in page.replace("bypasses", "")


def test_the_dashboard_counts_every_reply_and_names_the_passes(prepared_tiny: Path) -> None:
    asked = open_prepared(prepared_tiny).questions("test")
    said = [generated(each, each.answer if repeat else wrong(each), repeat) for repeat in range(3) for each in asked]
    phase = score_phase(asked, said, BUSI)
    cells = [np.array(task.confusion) for task in phase.classes.found]
    assert sum(int(each.sum()) for each in cells) == 27
    assert sum(int(each.trace()) for each in cells) == 18
    flat = phase_metrics("final", phase, BUSI)
    assert flat["final/accuracy_repeats"] == 3
    assert flat["final/accuracy_repeat_sd"] == pytest.approx(3**-0.5)
    once = phase_metrics("final", score_phase(asked, said[:9], BUSI), BUSI)
    assert "final/accuracy_repeats" not in once
