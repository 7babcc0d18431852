"""Tests that a model is validated, trained and scored on a user's data in every layout that the door reads."""

import json
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.benchmarks.vqa.own_data import LAYOUTS
from tests.benchmarks.vqa.test_conversation_sources import mllm_demo
from tests.examples import write_example
from tests.trainer.conftest import Nano

ONE_STEP = ("data.benchmark=vqa", "train.max_steps=1", "eval.conditions=[image]")


def _prepared_and_run(nano: Nano, folder: Path, arguments: list[str], *settings: str) -> dict[str, object]:
    """Prepares, validates and runs; returns results.json."""
    out = folder / "prepared"
    assert main(["prepare", "vqa", *arguments, "--out", str(out)]) == 0
    chosen = (*ONE_STEP, f"data.root={out}", *settings)
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *chosen]) == 0
    assert nano.here("run", folder / "run", *chosen) == 0
    found: dict[str, object] = json.loads((folder / "run" / "results.json").read_text())
    return found


@pytest.mark.parametrize("name", ["ms_swift", "llama_factory"])
def test_another_tools_data_set_trains(nano: Nano, tmp_path: Path, name: str) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example(name, raw)
    assert main(["prepare", "vqa", "--source", name, "--from", str(raw), "--out", str(out)]) == 0
    assert nano.here("run", tmp_path / "run", *ONE_STEP, f"data.root={out}") == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["primary"]["name"] == "exact_match"


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_goes_from_the_files_to_a_score(
    nano: Nano, tmp_path: Path, shared_real: Path, layout: str
) -> None:
    arguments = LAYOUTS[layout](shared_real, tmp_path / "raw")
    found = _prepared_and_run(nano, tmp_path, arguments)
    assert found["primary"] == {"name": "closed_accuracy", "higher_is_better": True}
    leaks = "of 60 test questions 18 about a shared image" if layout == "VQA-RAD" else ""
    assert str(found.get("split_leaks", ""))[: len(leaks)] == leaks
    assert bool(leaks) == ("split_leaks" in found)


@pytest.mark.slow
@pytest.mark.parametrize("demo", ["mllm_demo.json", "mllm_video_demo.json"])
def test_the_demonstrations_of_llama_factory_train(nano: Nano, tmp_path: Path, demo: str) -> None:
    raw = mllm_demo(tmp_path / "raw")
    video = ("model.name=nano_pocket_video",) if "video" in demo else ()
    found = _prepared_and_run(nano, tmp_path, ["--from", str(raw / demo)], *video)
    phases = found["phases"]
    assert isinstance(phases, dict)
    assert phases["final"]["overall"]["n"] == (1 if video else 4)
