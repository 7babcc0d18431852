"""Tests of `medtune validate`, called as on the command line."""

import json
import re
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


def test_validate_refuses_test_questions_beyond_the_context(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    """The longest text, and the most images together, before any hour is spent on the others."""
    pictures = sorted(path for path in tiny_busi.rglob("*.png") if "_mask" not in path.name)
    history = "The history is long. " * 1700
    for odd in ({"question": f"{history}Is there a mass?"}, {"image": [str(pictures[9])] * 4200}):
        rows = [
            {"image": [str(path)], "question": "Is there a mass?", "answer": "no", "split": split, "patient": path.name}
            for path, split in zip(pictures[:9], ["train"] * 6 + ["val"] * 2 + ["test"], strict=True)
        ]
        table, out = tmp_path / f"{next(iter(odd))}.jsonl", tmp_path / next(iter(odd))
        table.write_text("\n".join(map(json.dumps, [*rows, rows[-1] | odd])), "utf-8")
        assert main(["prepare", "vqa", "--from", str(table), "--out", str(out)]) == 0
        fields = ["data.benchmark=vqa", f"data.root={out}", "eval.readings=[likelihood]"]
        capsys.readouterr()
        assert main(["validate", "nano_busi_lora", "--set", *fields]) == 1
        assert re.search(rf"{out}, split test, question .* tokens where the language model", capsys.readouterr().err)


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
