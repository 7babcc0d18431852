"""Tests that a run and its exports write as many bytes of weights as the plan says."""

from pathlib import Path

import pytest

from medtune.models.assemble import zoo_entry
from medtune.trainer.commands.cli import main
from medtune.trainer.plan.devices import Devices
from medtune.trainer.plan.plan import Plan, Planner, Sizes
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import QUICK, Nano

SHORT = ("train.max_steps=1", "eval.readings=[likelihood]", "eval.conditions=[image]", "eval.val_questions=2")
HEADERS = 0.1
"""The share that the names of the tensors take in files of tiny weights."""


def _plan(*settings: str) -> Plan:
    recipe = read_recipe("nano_busi_lora", [*QUICK, *SHORT, *settings])
    entry = zoo_entry(recipe.model.name)
    return Planner(entry, Sizes(20, 4)).plan(recipe, Devices(1, "CPU", 8.0, is_gpu=False))


def _weights(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors"))


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_a_run_and_its_exports_take_what_is_planned(mode: str, nano: Nano, tmp_path: Path) -> None:
    run, setting = tmp_path / "run", f"model.tuning.language.mode={mode}"
    assert nano.here("train", run, *SHORT, setting) == 0
    plan = _plan(setting)
    # A third file is there while it is written.
    trained = plan.disk["trained weights (one while it is written)"] * 2 / 3
    adapter = plan.disk.get("adapter in PEFT's format (two while it is written)", 0) / 2
    assert (adapter > 0) == (mode == "lora")
    assert _weights(run / "checkpoints") == pytest.approx(trained + adapter, rel=HEADERS)
    for dtype, name in (("bfloat16", "merged in 16 bits"), ("float32", "in float32")):
        out = tmp_path / dtype
        assert main(["export", str(run), "--out", str(out), "--dtype", dtype, "--no-proof"]) == 0
        assert _weights(out) == pytest.approx(plan.export[name], rel=HEADERS)
    if mode == "lora":
        assert main(["export", str(run), "--out", str(tmp_path / "adapter"), "--adapter", "--no-proof"]) == 0
        assert _weights(tmp_path / "adapter") == pytest.approx(plan.export["--adapter"], rel=HEADERS)
    assert ("--adapter" in plan.export) == (mode == "lora")
