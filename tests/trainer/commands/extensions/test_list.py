"""Tests of `medtune list`: tiny models are hidden, and extensions of plugins are listed with their origin."""

import subprocess
import sys
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_every_extension_says_what_it_is(kind: str, capsys: Capture) -> None:
    assert main(["list", kind, "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == catalog.names(catalog.KINDS[kind])
    assert all(len(line.split()) > 2 for line in lines)


def test_encoders_of_timm_are_listed_as_a_recipe_names_them(capsys: Capture) -> None:
    assert main(["list", "encoders"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "timm:vit_small_patch16_dinov3.lvd1689m" in lines
    assert lines == sorted(lines, key=str.lower) or len(set(lines)) == len(lines)
    assert main(["list", "towers"]) == 0
    assert "timm:ENCODER" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("recipes", "pocket_busi_lora"),
        ("models", "pocket"),
        ("benchmarks", "busi"),
        ("metrics", "accuracy"),
        ("sources", "vqa_rad"),
    ],
)
def test_list_shows_names_with_their_first_line(kind: str, name: str, capsys: Capture) -> None:
    assert main(["list", kind]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] == name]
    assert len(line.split()) > 3


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = f"{sys.executable} -u -m medtune list benchmarks | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["models", "recipes"])
def test_twins_and_their_recipes_are_hidden_without_all(kind: str, capsys: Capture) -> None:
    assert main(["list", kind]) == 0
    assert "nano_" not in {line[:5] for line in capsys.readouterr().out.splitlines()}
    assert main(["list", kind, "--all"]) == 0
    assert "nano_" in {line[:5] for line in capsys.readouterr().out.splitlines()}


@pytest.mark.parametrize("behind", [False, True])
def test_the_plugin_is_named_before_or_behind_the_command(behind: bool, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "mine.py").write_text('"""A metric of mine."""\n\n\ndef metric():\n    ...\n')
    named, listed = [f"--plugins={tmp_path}"], ["list", "metrics"]
    assert main([*listed, *named] if behind else [*named, *listed]) == 0
    assert f"A metric of mine.  [{tmp_path}]" in capsys.readouterr().out
    assert main(listed) == 0
    assert "mine" not in capsys.readouterr().out
