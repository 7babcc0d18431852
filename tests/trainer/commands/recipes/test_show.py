"""Tests of `medtune show`, called as on the command line."""

from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


def test_show_resolves_the_recipe_under_its_header(capsys: Capture) -> None:
    assert main(["show", "nano_busi_lora", "--set", "train.seed=9"]) == 0
    out = capsys.readouterr().out
    assert "# Expected:" in out
    assert "seed: 9" in out
    assert "warmup_ratio: 0.1" in out


def test_origins_name_the_file_of_each_value(capsys: Capture, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("extends: nano_busi_lora\ntrain: {seed: 3}\n")
    assert main(["show", str(own), "--origins", "--set", "train.max_steps=4"]) == 0
    lines = dict(line.split(" = ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["train.seed"] == f"3    {own}"
    assert lines["train.max_steps"] == "4    --set"
    assert lines["data.benchmark"].startswith("'busi'")
    # nano_busi_lora itself extends pocket_busi_lora.
    assert lines["data.benchmark"].endswith("pocket_busi_lora.yaml")
    assert lines["model.name"].endswith("nano_busi_lora.yaml")
