"""Tests `medtune.Report`: it escapes what data say, loads nothing from elsewhere, and shows itself in a notebook."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

import medtune
from medtune.benchmarks import paper_of
from medtune.eval.report.write import write_report
from medtune.trainer.commands.cli import main
from tests.eval.answerers import Oracle
from tests.eval.report.folders import write_run

ROLES = ("user", "assistant")
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def result(prepared_tiny: Path) -> medtune.Evaluation:
    return medtune.evaluate(
        lambda images, prompt: EVIL if len(prompt) % 2 else "benign", medtune.load(prepared_tiny).test, progress=False
    )


def test_the_page_of_an_evaluation(result: medtune.Evaluation, tmp_path: Path) -> None:
    path = medtune.Report(result).write(tmp_path)
    page = path.read_text("utf-8")
    assert path == tmp_path / "report.html"
    assert f"{result.score.value:.3f}" in page
    assert "Reconstructed questions" in page
    assert page.count('class="item"') == 9
    assert page.count("data:image/jpeg") >= 9
    assert EVIL not in page
    assert (html.escape(EVIL) in page) == (EVIL in result.replies.values())
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    with pytest.raises(FileNotFoundError, match="there is no such folder; make it"):
        medtune.Report(result).write(tmp_path / "missing" / "report.html")


def test_a_question_stands_behind_the_earlier_turns_of_its_conversation(tmp_path: Path) -> None:
    said = [("What?", "a cyst"), ("Where? " + "x" * 700, "left"), ("How large is it?", "12 mm")]
    messages = [{"role": role, "content": text} for turn in said for role, text in zip(ROLES, turn, strict=True)]
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    (raw / "test.jsonl").write_text(json.dumps({"messages": messages}) + "\n", "utf-8")
    command = ["prepare", "vqa", "--source", "ms_swift", "--from", str(raw), "--out", str(out)]
    assert main(command) == 0
    questions = medtune.load(out).test
    page = medtune.Report(medtune.evaluate(Oracle(), questions, progress=False)).html
    shown = [card.partition("</p>")[0] for card in page.split('<p class="question" dir="auto">')[1:]]
    (last,) = [each for each in shown if each.endswith("How large is it?")]
    assert last.startswith("... xxx")
    assert last.endswith("xxx\nAssistant: left\nUser: How large is it?")


def test_a_notebook_shows_a_frame_of_its_own(result: medtune.Evaluation) -> None:
    report = medtune.Report(result)
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown
    inner = re.search(r'srcdoc="([^"]*)"', shown)
    assert inner is not None
    assert html.unescape(inner[1]) == report.html


def test_the_page_of_a_comparison_and_of_plain_answers(result: medtune.Evaluation, prepared_tiny: Path) -> None:
    oracle = medtune.evaluate(Oracle(), medtune.load(prepared_tiny).test, name="oracle", progress=False)
    page = medtune.Report(medtune.compare(result, oracle)).html
    assert "data:image/svg+xml" in page
    assert "oracle minus model" in page
    plain = medtune.Report(medtune.score(["yes", "a cyst"], ["no", "a cyst"])).html
    assert "each question counts as a patient" in html.unescape(plain).replace("\n", " ")
    assert "a cyst" in plain


def test_the_report_of_a_run_is_the_one_that_the_run_wrote(prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny)
    own = write_report(run, paper_of).read_text("utf-8")
    assert medtune.Report(str(run)).html == own


def test_the_report_of_what_is_none_is_refused(tmp_path: Path) -> None:
    anything: Any = 0.5
    with pytest.raises(TypeError, match="a float has no report"):
        medtune.Report(anything)
    with pytest.raises(FileNotFoundError, match="there is no such run folder"):
        medtune.Report(tmp_path / "run").write(tmp_path)
