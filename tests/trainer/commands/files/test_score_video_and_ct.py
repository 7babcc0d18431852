"""Tests that `medtune score` prints the tables of ReXSonoVQA and CTLesionVQA for every source of their questions."""

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main

PRINTED = {
    "rexsonovqa": ("Gemini 3 Pro", "How answers are read"),
    "ctlesionvqa": ("Table 3, multiple choice", "RadFM", "DeepTumorVQA v2's scorer"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_score_prints_the_benchmarks_own_tables(
    name: str, tiny_busi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions"
    prepare(find_source("busi"), benchmark=name, root=tiny_busi, out=questions)
    asked = open_prepared(questions).questions("test")
    predictions = tmp_path / "predictions.jsonl"
    lines = [json.dumps({"question_id": question.id, "text": "Answer: B"}) for question in asked]
    predictions.write_text("\n".join(lines), "utf-8")
    assert main(["score", name, "--predictions", str(predictions), "--questions", str(questions)]) == 0
    printed = capsys.readouterr().out
    assert all(words in printed for words in PRINTED[name])
    scores = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert scores["tables"]
    parsed = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text("utf-8").splitlines()]
    assert all({"robust", "official"} <= row.keys() for row in parsed)
