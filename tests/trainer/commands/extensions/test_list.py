"""`medtune list`, as a person types it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from medtune.trainer.commands.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("recipes", "pocket_busi_lora"),
        ("models", "pocket"),
        ("benchmarks", "busi"),
        ("metrics", "accuracy"),
        ("sources", "fetal_heads"),
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
