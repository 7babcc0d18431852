"""Tests `medtune init`: the recipe is written once, and the commands that it says work when they are pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe

ROOT = Path(__file__).resolve().parents[4]
Capture = pytest.CaptureFixture[str]


def commands(said: str) -> list[str]:
    """Returns the commands that are there to be pasted."""
    return re.findall(r"^    (medtune .*)$", said, re.MULTILINE)


def test_a_prepared_folder_gives_a_recipe_that_validates(
    prepared_tiny: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my study", "--data", str(prepared_tiny)]) == 0
    said = capsys.readouterr().out
    recipe = Path("my study/my study.yaml")
    assert "train 51, val 12, test 9 (as the data say)" in said
    assert [line.split()[1] for line in commands(said)] == ["validate", "eval", "run"]
    assert all("'my study/my study.yaml'" in line for line in commands(said))
    read = read_recipe(str(recipe))
    assert (read.data.benchmark, read.data.root) == ("busi", prepared_tiny)
    assert read.model.name == "pocket"
    assert read.eval.readings == ("likelihood", "generation")
    monkeypatch.chdir(tmp_path.parent)
    again = str(tmp_path / recipe)
    assert main(["validate", again, "--no-weights", "--set", "model.name=nano_pocket"]) == 0
    before = (tmp_path / recipe).read_bytes()
    assert main(["init", str(tmp_path / "my study"), "--data", str(prepared_tiny)]) == 1
    assert "this recipe is there already and is left as it is" in capsys.readouterr().err
    assert (tmp_path / recipe).read_bytes() == before


def test_what_cannot_be_read_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", str(tmp_path / "new"), "--data", str(tmp_path / "data.csv")]) == 1
    assert "data.csv: there" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
