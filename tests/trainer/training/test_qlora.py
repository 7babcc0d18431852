"""Tests a run whose language model is kept in 4 bits, and the refusal of settings that 4 bits do not allow."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.quantize import quantize_language
from medtune.trainer.commands.cli import main
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import held
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano

HELD = "model.language_bits=4"


@pytest.mark.parametrize("name", ["nano_pocket", pytest.param("nano_qwen25vl", marks=pytest.mark.slow)])
def test_run_learns_and_reads_its_adapters_back(
    nano: Nano, tmp_path: Path, curve: Callable[[Path, str], list[float]], name: str
) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    settings = (
        HELD,
        f"model.name={name}",
        "train.max_steps=16",
        "eval.every_steps=16",
        "model.tuning.language.lr=0.01",
    )
    assert nano.here("run", run, *settings) == 0
    losses = curve(run, "train/loss")
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    best = run / "checkpoints" / "best.safetensors"
    assert all(".lora_" in each or "projector" in each or "merger" in each for each in load_file(best))
    assert "4 bits" in json.loads((run / "weights.json").read_text())["language"]
    assert nano.here("eval", again, *settings, f"model.checkpoint={best}") == 0
    assert _answers(again) == _answers(run)


def _answers(run: Path) -> list[str]:
    return sorted((run / "final" / "predictions.jsonl").read_text().splitlines())


def test_memory_counts_half_a_byte_for_each_weight_held_in_4_bits() -> None:
    recipe = read_recipe("nano_busi_lora", [HELD])
    model = zoo_entry("nano_pocket").skeleton()
    plain = held(recipe.train, apply_tuning(model, recipe.model.tuning, seed=0), Divided(), is_gpu=True)
    model = zoo_entry("nano_pocket").skeleton()
    quantize_language(model, precision="32-true", device=next(model.parameters()).device)
    packed = held(recipe.train, apply_tuning(model, recipe.model.tuning, seed=0), Divided(), is_gpu=True)
    weights = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64)
    assert plain.weights - packed.weights == pytest.approx(weights * (4 - 0.5 - 1 / 64 - 4 / 256 / 64))
    assert (packed.gradients, packed.moments) == (plain.gradients, plain.moments)


def test_validate_shows_what_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    settings = [HELD, "model.dtype=bfloat16"]
    main(["validate", "qwen25vl_7b_fetal_gauge_lora", "--no-weights", "--set", *settings, "--devices", "1xA5000-24GB"])
    said = capsys.readouterr().out
    assert "lora, 4 bit" in said
    assert "GPU memory" not in said


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.tuning.language.mode=full"], "weights in 4 bits cannot learn: use lora"),
        (["train.strategy=deepspeed_stage_3", "train.devices=2"], "use deepspeed_stage_2 or ddp"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_loaded(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", [HELD, *settings])


@pytest.mark.parametrize(
    "strategy", [pytest.param("ddp", marks=pytest.mark.soak), pytest.param("deepspeed_stage_2", marks=pytest.mark.slow)]
)
def test_two_devices_equal_one(
    nano: Nano, tmp_path: Path, curve: Callable[[Path, str], list[float]], strategy: str
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    nano.finished("train", one, HELD)
    nano.finished("train", two, HELD, "train.devices=2", f"train.strategy={strategy}")
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-4)
