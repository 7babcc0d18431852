"""Tests the moving average of the weights: its formula, what is evaluated and saved, and that it survives a stop."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.models.weights.checkpoint import read_about
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import held
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]
EMA = "train.ema_decay=0.6"
SAME_RATE = ("train.schedule=constant", "train.warmup_ratio=0", "eval.every_steps=100", "eval.val_questions=2",
             "model.tuning.language.lr=0.01")  # fmt: skip
LONG = ("train.max_steps=24", "train.batch_size=2", "eval.every_steps=4", "eval.val_questions=3",
        "model.tuning.language.lora.dropout=0.1", "train.ema_decay=0.9")  # fmt: skip


def last(run: Path) -> dict[str, Tensor]:
    return load_file(run / "checkpoints" / "last.safetensors")


def test_saved_weights_are_the_average_that_torch_computes_by_hand(nano: Nano, tmp_path: Path) -> None:
    for steps in (1, 2, 3):
        assert nano.here("train", tmp_path / f"{steps}", f"train.max_steps={steps}", *SAME_RATE) == 0
    assert nano.here("train", tmp_path / "ema", "train.max_steps=3", EMA, *SAME_RATE) == 0
    after = [last(tmp_path / f"{steps}") for steps in (1, 2, 3)]
    names = sorted(after[0])
    by_hand: AveragedModel | None = None
    for each in after:
        weights = nn.ParameterList([nn.Parameter(each[name]) for name in names])
        by_hand = by_hand or AveragedModel(weights, multi_avg_fn=get_ema_multi_avg_fn(0.6))
        by_hand.update_parameters(weights)
    assert by_hand is not None
    found = last(tmp_path / "ema")
    assert found.keys() == after[0].keys()
    for name, wanted in zip(names, by_hand.module.parameters(), strict=True):
        torch.testing.assert_close(found[name], wanted.detach(), rtol=1e-5, atol=1e-7)
    assert max(float((found[name] - after[2][name]).abs().max()) for name in names) > 1e-3
    assert read_about(tmp_path / "ema" / "checkpoints" / "last.safetensors")["ema_decay"] == "0.6"


def test_validation_asks_the_average_and_training_goes_on_without_it(
    nano: Nano, tmp_path: Path, curve: Curve, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("train.max_steps=4", "eval.every_steps=2", "model.tuning.language.lr=0.05", "eval.conditions=[image]")
    plain, averaged, again = tmp_path / "plain", tmp_path / "averaged", tmp_path / "again"
    assert nano.here("train", plain, *settings) == 0
    capsys.readouterr()
    assert nano.here("train", averaged, *settings, EMA) == 0
    assert "moving average of the weights (train.ema_decay 0.6)" in capsys.readouterr().out
    assert curve(averaged, "train/loss") == curve(plain, "train/loss")
    asked = {run: (run / "validation" / "step_000004" / "predictions.jsonl").read_bytes() for run in (plain, averaged)}
    assert asked[plain] != asked[averaged]
    # The averaged weights that were saved give the answers of that validation.
    last_weights = averaged / "checkpoints" / "last.safetensors"
    asking = ("eval.split=val", "eval.questions=8", f"model.checkpoint={last_weights}")
    assert nano.here("eval", again, *settings, *asking) == 0
    validated = set(asked[averaged].splitlines())
    assert validated <= set((again / "final" / "predictions.jsonl").read_bytes().splitlines())


def test_memory_counts_four_bytes_for_each_weight_that_learns() -> None:
    model = zoo_entry("nano_pocket").skeleton()
    plain, averaged = read_recipe("nano_busi_lora"), read_recipe("nano_busi_lora", [EMA])
    rows = apply_tuning(model, plain.model.tuning, seed=0)
    assert held(plain.train, rows, Divided(), is_gpu=True).average == 0
    assert held(averaged.train, rows, Divided(), is_gpu=True).average == pytest.approx(
        4 * sum(row.trainable for row in rows)
    )


@pytest.mark.parametrize("decay", ["1", "0", "-0.5"])
def test_a_decay_that_averages_nothing_is_refused(decay: str) -> None:
    with pytest.raises(ValueError, match=r"train\.ema_decay is .*; it must be above 0 and below 1"):
        read_recipe("nano_busi_lora", [f"train.ema_decay={decay}"])


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param("deepspeed_stage_2", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", marks=pytest.mark.soak),
    ],
)
def test_a_killed_and_resumed_run_has_the_same_average(nano: Nano, tmp_path: Path, strategy: str | None) -> None:
    settings = LONG if strategy is None else (*LONG, "train.devices=2", f"train.strategy={strategy}")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    nano.finished("train", whole, *settings)
    process = (nano.launched if strategy else nano.process)("train", killed, *settings)
    deadline = time.monotonic() + 150
    while RunFolder(killed).saved_step() < 8 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert 8 <= RunFolder(killed).saved_step() < 24
    nano.finished("train", killed, *settings, extra=("--resume",))
    one, two = last(whole), last(killed)
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=0 if strategy is None else 1e-6)
