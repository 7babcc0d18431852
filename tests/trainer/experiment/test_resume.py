"""Tests that a stopped or killed run can be resumed and then gives bit-identical results."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.trainer.experiment.run_folder import RunFolder
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]
LONG = ("train.max_steps=40", "train.batch_size=2", "eval.every_steps=4", "eval.val_questions=3",
        "model.tuning.language.lora.dropout=0.1")  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    Nano(prepared_tiny).finished("run", out, *LONG)
    return out


def _stop_in_training(nano: Nano, out: Path, number: int, *overrides: str) -> tuple[int, str]:
    begin = nano.launched if "train.devices=2" in overrides else nano.process
    process = begin("run", out, *LONG, *overrides)
    deadline = time.monotonic() + 300
    while RunFolder(out).saved_step() < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode is not None
    return process.returncode, output


def _same_run(one: Path, two: Path, curve: Curve) -> None:
    assert curve(one, "train/loss") == curve(two, "train/loss")
    for name in ("zero_shot/accuracy", "val/accuracy", "final/accuracy"):
        assert curve(one, name) == curve(two, name)
    for phase in ("zero_shot", "final"):
        assert (one / phase / "predictions.jsonl").read_bytes() == (two / phase / "predictions.jsonl").read_bytes()
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (one, two))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine.keys() | theirs.keys())


@pytest.mark.slow
def test_ctrl_c_saves_a_state_that_resume_takes(nano: Nano, uninterrupted: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    status, output = _stop_in_training(nano, out, signal.SIGINT)
    assert status == 130, output[-2000:]
    assert "continue with --resume" in output
    assert 4 <= RunFolder(out).saved_step() < 40
    nano.finished("run", out, *LONG, extra=("--resume",))
    _same_run(out, uninterrupted, curve)


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_saved(nano: Nano, uninterrupted: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    status, _ = _stop_in_training(nano, out, signal.SIGKILL)
    assert status == -signal.SIGKILL
    nano.finished("run", out, *LONG, extra=("--resume",))
    _same_run(out, uninterrupted, curve)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["ddp", "deepspeed_stage_2", "deepspeed_stage_3"])
def test_two_devices_resume(nano: Nano, uninterrupted: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    out, settings = tmp_path / "run", ("train.devices=2", f"train.strategy={strategy}")
    status, output = _stop_in_training(nano, out, signal.SIGINT, *settings)
    assert status == 130, output[-2000:]
    nano.finished("run", out, *LONG, *settings, extra=("--resume",))
    losses = curve(out, "train/loss")
    assert len(losses) == 40
    again = tmp_path / "whole"
    nano.finished("run", again, *LONG, *settings)
    assert losses == pytest.approx(curve(again, "train/loss"), abs=1e-6)


@pytest.mark.slow
def test_ctrl_c_while_answering_keeps_the_answers(nano: Nano, tmp_path: Path) -> None:
    # Long replies, image by image: the last answer must not come before the signal does, however busy the machine is.
    out, settings = tmp_path / "run", ("eval.max_new_tokens=512", "eval.batch_size=1")
    process = nano.process("eval", out, *settings)
    shard, deadline = out / "zero_shot" / "predictions.rank0.jsonl", time.monotonic() + 300
    while time.monotonic() < deadline and not (shard.is_file() and shard.stat().st_size):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output[-2000:]
    kept = shard.read_bytes().splitlines()
    nano.finished("eval", out, *settings, extra=("--resume",))
    whole = (out / "zero_shot" / "predictions.jsonl").read_bytes().splitlines()
    assert set(kept) <= set(whole)
    assert len(whole) == 27


def test_resume_with_other_settings_is_refused(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert nano.here("eval", out) == 0
    assert nano.here("eval", out, "train.seed=5", extra=("--resume",)) == 1
    assert "has other settings than this command" in capsys.readouterr().err


def test_resume_of_nothing_is_refused(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("eval", tmp_path / "none", extra=("--resume",)) == 1
    assert "no run to resume here" in capsys.readouterr().err
