"""Tests the sentences of a report about answers that wait for a judge."""

import json
from pathlib import Path

from medtune.benchmarks import paper_of
from medtune.eval.report.answers import answered_questions
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.table import NONE, ReportTable
from medtune.eval.report.write import write_report, write_runs
from tests.eval.report.folders import change_json, write_run


def column(table: ReportTable, name: str) -> list[str]:
    place = table.columns.index(name)
    return [row[place].text for row in table.rows]


def without_verdicts(run: Path, *phases: str) -> None:
    """Changes the results so that all answers of these phases wait for a judge."""
    results = json.loads((run / "results.json").read_text())
    for name in phases:
        phase = results["phases"][name]
        scores = [phase["overall"], *(level for found in phase["by"].values() for level in found.values())]
        scores += [one for parsers in phase["metrics"]["image"].values() for one in parsers.values()]
        for score in scores:
            score |= {"value": None, "ci95": None, "unscored": score["n"], "n": 0, "unparsable": 0}
        phase["unscored"] = phase["overall"]["unscored"]
        lines = [json.loads(line) for line in (run / name / "parsed.jsonl").read_text().splitlines()]
        waiting = [{**line, phase["parser"]: None, "unscored": [phase["parser"]]} for line in lines]
        (run / name / "parsed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in waiting))
    (run / "results.json").write_text(json.dumps({**results, "gain": None}))


def test_run_without_any_verdict_has_dashes_and_counts(run: Path) -> None:
    without_verdicts(run, "zero_shot", "final")
    found = read_run(run)
    report = run_report(found, paper_of)
    waiting = found.last.unscored
    assert waiting > 0
    assert report.headline.after == "no value"
    assert report.headline.verdict_said.startswith("No question has a scored answer both before and after")
    assert any(f"Unscored: {waiting:,} free answers wait for a judge" in each for each in report.headline.sentences)
    assert column(report.gain, "accuracy") == [NONE, NONE]
    assert column(report.gain, "unscored") == [str(waiting)] * 2
    by_task = next(facet.table for facet in report.facets if facet.table.columns[0] == "task")
    assert sum(map(int, column(by_task, "unscored"))) == waiting
    assert {answer.outcome for one in answered_questions(found) for answer in one.answers.values()} == {"unscored"}
    page, plain = write_report(run, paper_of).read_text(), (run / "report.md").read_text()
    assert "waits for a judge" in page
    assert "could not be read" not in page
    assert "nan" not in plain.split()


def test_one_judged_stage_is_shown_beside_one_that_waits(run: Path) -> None:
    parsed = read_run(run).phases["final"].overall
    without_verdicts(run, "zero_shot")
    report = run_report(read_run(run), paper_of)
    assert column(report.gain, "accuracy")[0] == NONE
    assert column(report.gain, "questions") == [f"0 of {parsed.n}", f"{parsed.n} of {parsed.n}"]
    assert "With trained weights" in report.headline.sentences[0]
    assert not any("Unscored" in each for each in report.headline.sentences)


def test_gain_says_how_many_questions_it_leaves_out(run: Path) -> None:
    assert not any("unscored" in note for note in run_report(read_run(run), paper_of).gain.notes)
    change_json(run / "results.json", "gain", "unscored", value=3)
    assert (
        "Left out of the gain: 3 questions with an unscored answer." in run_report(read_run(run), paper_of).gain.notes
    )


def test_several_runs_say_which_of_them_waits(run: Path, prepared_tiny: Path, tmp_path: Path) -> None:
    without_verdicts(run, "zero_shot", "final")
    other = write_run(tmp_path / "judged", prepared_tiny)
    write_runs([run, other], tmp_path / "both")
    said = " ".join((tmp_path / "both" / "report.md").read_text().split())
    assert f"wait for a judge (medtune judge): {run.name} {read_run(run).last.unscored}." in said.replace("\\", "")
