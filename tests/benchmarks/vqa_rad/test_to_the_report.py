"""Tests VQA-RAD's real files from prepare to the report, with a tiny random model."""

import json
from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main

TINY = (
    "model.name=nano_pocket", "train.precision=32-true", "train.max_steps=2", "train.batch_size=4",
    "train.micro_batch_size=4", "eval.every_steps=2", "eval.val_questions=8", "eval.max_new_tokens=4",
    "log.wandb=disabled",
)  # fmt: skip


@pytest.mark.slow
def test_the_real_files_to_the_report(shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, run = tmp_path / "prepared", tmp_path / "run"
    raw = str(shared_real / "vqa_rad")
    assert main(["prepare", "vqa_rad", "--from", raw, "--out", str(out), "--limit", "12"]) == 0
    said = capsys.readouterr().out
    assert "LEAKS of the data's own split, which is kept" in said
    num_test = open_prepared(out).num_questions("test")
    assert open_prepared(out).manifest.split_leaks["image"] == num_test
    settings = ["--set", f"data.root={out}", *TINY]
    assert main(["validate", "pocket_vqa_rad_lora", *settings]) == 0
    leaks = f"of {num_test} test questions {num_test} about a shared image"
    assert f"leaks of the data's own split: {leaks}" in capsys.readouterr().out
    assert main(["run", "pocket_vqa_rad_lora", "--out", str(run), *settings]) == 0
    results = json.loads((run / "results.json").read_text("utf-8"))
    assert results["primary"]["name"] == "closed_accuracy"
    assert leaks in results["split_leaks"]
    for phase in ("zero_shot", "final"):
        found = results["phases"][phase]
        assert 0 <= found["overall"]["value"] <= 1
        assert found["overall"]["baselines"]["majority"] is not None
        assert set(found["metrics"]["image"]["stated"]) == {"closed_accuracy", "exact_match", "token_f1", "open_recall"}
    blind = results["phases"]["final"]["overall"]["baselines"]
    assert blind["text_only"] is not None
    assert blind["other_image"] is not None
    report = (run / "report.html").read_text("utf-8")
    assert "Training holds what the test asks about" in report
    assert "MedEvalKit, no judge" in report
    predictions = run / "final" / "predictions.jsonl"
    capsys.readouterr()
    assert main(["score", "vqa_rad", "--predictions", str(predictions), "--questions", str(out)]) == 0
    said = capsys.readouterr().out
    assert "The same replies by the rules of other tools" in said
    assert leaks in said
