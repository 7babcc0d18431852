"""The page of a run that goes on: it follows the run, says when it ends, and never replaces a report."""

import re
from pathlib import Path

import pytest

from medtune.eval.report.running import RunningRun
from medtune.eval.results.metrics_file import HEADER, MetricRow, metric_lines
from medtune.trainer.live_page import LivePage
from medtune.trainer.time_left import TimeLeft
from tests.trainer.conftest import Capture, Nano

RUN = RunningRun("BUSI: first", "nano_pocket, split test", (("Synthetic data", "Made up."),), "accuracy", 10)
VALUES = {
    "train/loss": {1: 2.0, 2: 1.5, 3: 1.25},
    "val/accuracy": {2: 0.5},
    "val/accuracy_ci95_low": {2: 0.25},
    "val/accuracy_ci95_high": {2: 0.75},
    "zero_shot/accuracy": {0: 0.375},
    "zero_shot/accuracy_n": {0: 80.0},
}


def _text(folder: Path) -> str:
    page = (folder / "report.html").read_text("utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index("<main") :]))


def _measured(folder: Path) -> None:
    rows = [MetricRow(step, name, value) for name, values in VALUES.items() for step, value in values.items()]
    (folder / "metrics.csv").write_text(",".join(HEADER) + "\n" + metric_lines(rows))


def test_the_page_follows_the_run_and_leaves_a_report_alone(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    page = LivePage(tmp_path, RUN, results=results, left=TimeLeft(of_run_s=125.0))
    assert "step 0 of 10" in _text(tmp_path)
    assert "Nothing was learnt yet" in _text(tmp_path)
    _measured(tmp_path)
    page.log_metrics({"train/loss": 1.25}, step=3)
    assert "step 0 of 10" in _text(tmp_path), "a step alone does not write it anew within a minute"
    page.log_metrics({"val/accuracy": 0.5}, step=2)
    shown = _text(tmp_path)
    assert "The run goes on: step 3 of 10, 2:05 left of the whole run." in shown
    assert re.search(r"zero-shot 0\.375 .* 80 ", shown)
    assert "0.50 at step 2" in shown
    assert '<meta http-equiv="refresh"' in (tmp_path / "report.html").read_text()
    page.finalize("success")
    assert "The process ended" in _text(tmp_path)
    assert 'http-equiv="refresh"' not in (tmp_path / "report.html").read_text()
    results.touch()
    (tmp_path / "report.html").write_text("the report")
    page.log_metrics({"final/accuracy": 0.5}, step=10)
    page.finalize("success")
    assert (tmp_path / "report.html").read_text() == "the report"


@pytest.mark.parametrize("command", ["train", "run"])
def test_a_training_ends_with_its_page_and_a_run_with_its_report(
    nano: Nano, tmp_path: Path, command: str, capsys: Capture
) -> None:
    assert nano.here(command, tmp_path / "run", "train.max_steps=2", "eval.conditions=[image]") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert ("The process ended" in page) == (command == "train")
    assert 'http-equiv="refresh"' not in page
