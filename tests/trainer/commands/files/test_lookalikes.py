"""Tests that every output of a run says so if images that look alike were let into two splits."""

import json
from pathlib import Path
from typing import Any

import pytest

from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.training.loggers import logged_config
from tests.trainer.conftest import QUICK, Nano
from tests.twins import prepared_twins, write_twins

Capture = pytest.CaptureFixture[str]
QUICKER = ("train.max_steps=1", "eval.every_steps=1", "eval.readings=[generation]", "eval.conditions=[image]")
BY_FLAG = "pairs in two splits by --split-lookalikes"
BANNER = "Look-alikes in training and test"


def test_prepare_counts_groups_and_says_what_was_split(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    raw = prepared_twins(tiny_busi, tmp_path, split_lookalikes=False).root.with_name("raw")
    asked = ["prepare", "busi", "--from", str(raw), "--out", str(tmp_path / "out")]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "look-alikes: 30 images form 24 groups (perceptual hashes differ in at most 8 of 64 bits); 6 pairs" in said
    assert "look-alikes: no pair is in two splits" in said
    assert BY_FLAG not in said
    assert main([*asked, "--split-lookalikes"]) == 0
    said = capsys.readouterr().out
    assert "of 6 " + BY_FLAG in said
    assert "val and test questions have a look-alike in train" in said
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["lookalikes"]["kept_together"] is False


def test_validate_and_audit_say_it_before_anything_is_learnt(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    root = prepared_twins(tiny_busi, tmp_path, split_lookalikes=True).root
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", f"data.root={root}", *QUICK]) == 0
    said = capsys.readouterr().out
    assert "look-alikes: 30 images form 24 groups" in said
    assert BY_FLAG in said
    assert main(["audit", "busi", "--questions", str(root), "--out", str(tmp_path / "findings.json")]) == 0
    assert BY_FLAG in capsys.readouterr().out
    assert_labelled(read(tmp_path / "findings.json"))


@pytest.mark.slow
def test_every_output_says_that_look_alikes_were_split(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    root = prepared_twins(tiny_busi, tmp_path / "data", split_lookalikes=True).root
    series, first, second = tmp_path / "series", tmp_path / "series" / "seed_0", tmp_path / "series" / "seed_1"
    assert Nano(root).here("run", series, *QUICKER, extra=("--seeds", "2")) == 0
    assert BY_FLAG in capsys.readouterr().out
    for file in ("results.json", "zero_shot/scores.json", "final/scores.json", "environment.json", "audit.json"):
        assert_labelled(read(first / file))
    assert_labelled(read(series / "seeds.json"))
    by = read(first / "results.json")["phases"]["final"]["by"][TRAIN_TWIN]
    assert set(by) == {"yes", "no"}
    assert by["no"]["ci95"]
    assert set(read(first / "results.json")["gain"]["by"][TRAIN_TWIN]) == {"yes", "no"}
    assert main(["audit", str(first)]) == 0
    assert BY_FLAG in capsys.readouterr().out
    predictions = str(first / "final" / "predictions.jsonl")
    assert main(["score", "busi", "--predictions", predictions, "--questions", str(root)]) == 0
    said = capsys.readouterr().out
    assert BY_FLAG in said
    assert "no look-alike in train" in said
    assert main(["report", str(first), str(second), "--out", str(tmp_path / "both")]) == 0
    assert main(["compare", str(first), str(second), "--out", str(tmp_path / "compared")]) == 0
    assert BY_FLAG in capsys.readouterr().out
    assert main(["export", str(first), "--out", str(tmp_path / "model"), "--no-proof"]) == 0
    pages = (
        first / "report.html",
        first / "report.md",
        tmp_path / "both" / "report.md",
        tmp_path / "model" / "README.md",
    )
    for page in pages:
        text = page.read_text("utf-8").replace("\\", "")
        assert BANNER in text
        assert BY_FLAG in text
    label = RunFolder(first).recorded_label()
    config = logged_config(read_recipe(str(first / "recipe.yaml")), open_prepared(root).manifest, label)
    assert_labelled(config["label"])
    assert "benign (" not in json.dumps(config)


@pytest.mark.slow
def test_a_run_says_that_it_learnt_look_alikes_of_the_test(
    tiny_busi: Path, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    raw = write_twins(tiny_busi, tmp_path / "raw")
    larger = tmp_path / "larger"
    assert main(["prepare", "busi", "--from", str(raw), "--out", str(larger)]) == 0
    parts = f"data.mixture=[{{benchmark: busi, root: {larger}}}]"
    assert Nano(prepared_tiny).here("run", tmp_path / "refused", parts, *QUICKER) == 1
    assert "images look like images of its train split" in capsys.readouterr().err
    run = tmp_path / "run"
    assert Nano(prepared_tiny).here("run", run, parts, "data.allow_lookalikes=true", *QUICKER) == 0
    said = "images look like images of larger that were trained on, by data.allow_lookalikes"
    assert capsys.readouterr().out.count(said) >= 2
    for file in ("results.json", "final/scores.json", "environment.json", "audit.json"):
        assert read(run / file)["learnt_lookalikes"].endswith(said)
    for file in ("report.html", "report.md"):
        assert said in (run / file).read_text("utf-8").replace("\\", "")
    assert main(["audit", str(run)]) == 0
    assert said in capsys.readouterr().out


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def assert_labelled(found: Any) -> None:
    assert found["split_lookalikes"].endswith(BY_FLAG)
