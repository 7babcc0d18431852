"""Tests that a model can be trained on data sets in the formats of ms-swift and LLaMA-Factory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.trainer.commands.cli import main
from tests.trainer.conftest import Nano


@pytest.mark.parametrize("name", ["ms_swift", "llama_factory"])
def test_another_tools_data_set_trains(nano: Nano, tmp_path: Path, name: str) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write = find_source(name).write_example
    assert write is not None
    write(raw)
    assert main(["prepare", "vqa", "--source", name, "--from", str(raw), "--out", str(out)]) == 0
    settings = ("data.benchmark=vqa", f"data.root={out}", "train.max_steps=1", "eval.readings=[generation]")
    assert nano.here("run", tmp_path / "run", *settings, "eval.conditions=[image]") == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["primary"]["name"] == "rouge_l"
