"""Tests of `medtune show`, called as on the command line."""

from __future__ import annotations

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


def test_show_resolves_the_recipe_under_its_header(capsys: Capture) -> None:
    assert main(["show", "nano_busi_lora", "--set", "train.seed=9"]) == 0
    out = capsys.readouterr().out
    assert "# Expected:" in out
    assert "seed: 9" in out
    assert "warmup_ratio: 0.1" in out
