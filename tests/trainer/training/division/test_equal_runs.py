"""Tests that runs divided by tokens learn what runs divided by count learn: one rank, two ranks, and resumed."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from safetensors.torch import load_file

from medtune.trainer.commands.cli import main
from medtune.trainer.training.step_callbacks import StepLog
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]
STEPS = ("train.batch_size=5", "train.clip_norm=3.5", "model.tuning.language.lora.dropout=0", "eval.val_questions=2")
TOKENS = "train.micro_batch_tokens=900"


@pytest.fixture(scope="module")
def by_count(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("count") / "run"
    assert Nano(prepared_tiny).here("train", out, *STEPS, "train.micro_batch_size=5") == 0
    return out


def _learns_the_same(one: Path, other: Path, curve: Curve, *, within: float) -> None:
    assert len(curve(one, "train/loss")) == 4
    assert curve(one, "train/loss") == pytest.approx(curve(other, "train/loss"), abs=within)
    assert curve(one, "train/gradient_norm") == pytest.approx(curve(other, "train/gradient_norm"), rel=1e-4)
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (one, other))
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 1e-4


def test_one_device(nano: Nano, by_count: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    assert nano.here("train", out, *STEPS, TOKENS) == 0
    _learns_the_same(out, by_count, curve, within=1e-6)
    assert curve(out, "train/loss") != curve(by_count, "train/loss"), "the passes are other ones"


def test_a_resume_divides_otherwise_and_continues_the_same_losses(
    nano: Nano, by_count: Path, tmp_path: Path, curve: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_step = StepLog.on_train_batch_end

    def stopped_in_the_second_step(log: StepLog, trainer: pl.Trainer, *rest: Any) -> None:
        if trainer.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        after_step(log, trainer, *rest)

    out = tmp_path / "run"
    monkeypatch.setattr(StepLog, "on_train_batch_end", stopped_in_the_second_step)
    assert nano.here("train", out, *STEPS, TOKENS) == 130
    monkeypatch.undo()
    assert len(curve(out, "train/loss")) == 2
    assert nano.here("train", out, *STEPS, "train.micro_batch_tokens=1", extra=("--resume",)) == 0
    _learns_the_same(out, by_count, curve, within=1e-6)


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "deepspeed_stage_3" else pytest.mark.soak)
        for name in ("ddp", "fsdp", "deepspeed_stage_2", "deepspeed_stage_3")
    ],
)
def test_two_devices(nano: Nano, by_count: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    out = tmp_path / "run"
    nano.finished("train", out, *STEPS, TOKENS, "train.devices=2", f"train.strategy={strategy}")
    # A loss of 6.2 has a last digit of 4.8e-7 in float32. Two ranks add it up in another order, from passes of other
    # lengths: 1.1e-6 apart in the first step, before anything was learnt.
    _learns_the_same(out, by_count, curve, within=2e-6)


def test_validate_says_what_a_pass_holds(prepared_tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [f"data.root={prepared_tiny}", "train.batch_size=5", "train.max_steps=4"]
    main(["validate", "nano_busi_lora", "--set", *settings, TOKENS])
    said = capsys.readouterr().out
    assert "budget     train.micro_batch_tokens 900: the largest pass within it computes " in said
    assert "padding over 4 steps" in said
    assert "groups are longer" not in said
    main(["validate", "nano_busi_lora", "--set", *settings, "train.micro_batch_tokens=3"])
    said = capsys.readouterr().out
    assert "20 groups are longer, up to " in said
    assert "accumulates 5 x 1 devices" in said
