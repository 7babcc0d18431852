"""Tests of `medtune prepare`, called as on the command line."""

from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


def test_prepare_says_what_is_in_the_folder(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "prepared"
    assert main(["prepare", "busi", "--from", str(tiny_busi), "--out", str(out), "--limit", "12"]) == 0
    said = capsys.readouterr().out
    assert "diagnosis" in said
    assert "data hash" in said
    assert "patients:" in said


def test_prepare_refuses_a_source_of_another_benchmark(tiny_busi: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["--from", str(tiny_busi), "--out", str(tmp_path / "p")]
    assert main(["prepare", "busi", "--source", "vqa_rad", *arguments]) == 1
    assert "takes the sources busi, not 'vqa_rad'" in capsys.readouterr().err
    assert main(["prepare", "bussi", *arguments]) == 1
    assert "Did you mean 'busi'?" in capsys.readouterr().err
    assert main(["prepare", "busi", "--from", str(tmp_path / "none"), "--out", str(tmp_path / "p")]) == 1
    assert "none" in capsys.readouterr().err
