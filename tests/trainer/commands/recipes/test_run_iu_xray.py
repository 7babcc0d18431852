"""Tests that a model trains and answers on reports of studies with two images, and that the run states the leak."""

import json
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.trainer.conftest import Nano


@pytest.mark.slow
def test_reports_on_two_images_train_and_are_scored(nano: Nano, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example("iu_xray", raw)
    assert main(["prepare", "iu_xray", "--from", str(raw), "--out", str(out)]) == 0
    settings = ("data.benchmark=iu_xray", f"data.root={out}", "train.max_steps=1", "eval.readings=[generation]")
    assert nano.here("run", tmp_path / "run", *settings, "eval.conditions=[image]") == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text("utf-8"))
    assert results["primary"]["name"] == "rouge_l"
    assert "2 about a shared report" in json.dumps(results)
    scores = json.loads((tmp_path / "run" / "final" / "scores.json").read_text("utf-8"))
    assert any("constant report as the answer" in table["title"] for table in scores["tables"])
