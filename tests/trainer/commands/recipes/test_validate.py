"""Tests of `medtune validate`, called as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from medtune.data.prepared.read import open_prepared
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano

Capture = pytest.CaptureFixture[str]


def test_validate_shows_labels_groups_and_budget(prepared_tiny: Path, capsys: Capture) -> None:
    assert main(["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}"]) == 0
    said = capsys.readouterr().out
    assert "(8 visual tokens)" in said
    assert "<|im_end|>]]" in said
    assert "66,240" in said, "the projector's parameters"
    assert "target tokens" in said
    assert "test        9 questions" in said


def test_validate_warns_of_answers_that_are_longer_than_replies(prepared_tiny: Path, capsys: Capture) -> None:
    arguments = ["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", "eval.max_new_tokens=3"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    (warning,) = [line for line in said.splitlines() if line.startswith("warning")]
    longest = max(len(question.answer) for question in open_prepared(prepared_tiny).questions("test"))
    assert f"test has {longest} tokens, and replies are cut behind 3: set eval.max_new_tokens={longest + 1}" in warning
    assert main([*arguments, "eval.readings=[likelihood]"]) == 0
    assert "warning" not in capsys.readouterr().out


def test_validate_without_weights_needs_none(prepared_tiny: Path, capsys: Capture) -> None:
    arguments = ["validate", "pocket_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "134,515,008" in said
    assert "no weights were loaded" in said


def test_validate_refuses_an_unknown_parser(nano: Nano, prepared_tiny: Path, capsys: Capture) -> None:
    arguments = ["validate", "nano_busi_lora", "--set", f"data.root={prepared_tiny}", "eval.parser=lenient"]
    assert main(arguments) == 1
    assert "there are: robust, strict, likelihood" in capsys.readouterr().err
