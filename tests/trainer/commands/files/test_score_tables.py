"""Tests that `medtune score` prints a benchmark's own tables and writes them to its files."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main


def test_score_prints_the_papers_rows_and_ours(
    tiny_busi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions"
    prepare(find_source("busi"), benchmark="fetal_gauge", root=tiny_busi, out=questions)
    asked = open_prepared(questions).questions("test")
    predictions = tmp_path / "predictions.jsonl"
    lines = [json.dumps({"question_id": question.id, "text": question.answer}) for question in asked]
    predictions.write_text("\n".join(lines), "utf-8")
    assert main(["score", "fetal_gauge", "--predictions", str(predictions), "--questions", str(questions)]) == 0
    printed = capsys.readouterr().out
    assert "GPT-5" in printed
    assert "ours, read by robust" in printed
    published, alone = json.loads((tmp_path / "scores.json").read_text("utf-8"))["tables"][:2]
    assert not [row for row in published["rows"] if row[0].startswith("ours")]
    # These are no released questions, so there is no rank among the published models.
    assert alone["rows"][0][-1] == 1.0
    assert "the data are reconstruction, not the released ones" in alone["notes"][0]
    assert "rank" not in alone["columns"]
