"""Tests that runs on a GPU, also resumed ones, agree with those on a CPU, in every precision and strategy."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.trainer.experiment.run_folder import RunFolder
from tests.trainer.conftest import Nano

pytestmark = pytest.mark.gpu

Curve = Callable[[Path, str], list[float]]
LEARNS = ("train.max_steps=16", "eval.every_steps=16", "model.tuning.language.lr=0.01")


@pytest.fixture(scope="module")
def on_a_cpu(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cpu") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        Nano(prepared_tiny).finished("run", out)
    return out


@pytest.mark.parametrize("strategy", ["auto", "ddp", "deepspeed_stage_2", "deepspeed_stage_3"])
def test_a_run_is_a_cpus(nano: Nano, on_a_cpu: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    if strategy.startswith("deepspeed"):
        pytest.importorskip("deepspeed")
    out = tmp_path / "run"
    nano.finished("run", out, f"train.strategy={strategy}")
    assert torch.cuda.get_device_name(0) in (out / "environment.json").read_text()
    assert curve(out, "train/peak_memory_gb")[-1] > 0
    assert curve(out, "train/loss") == pytest.approx(curve(on_a_cpu, "train/loss"), abs=2e-3)
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (out, on_a_cpu))
    assert mine.keys() == theirs.keys()
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 2e-3
    assert _logprobs(out) == pytest.approx(_logprobs(on_a_cpu), abs=2e-2)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_it_learns_in_16_bits(nano: Nano, tmp_path: Path, curve: Curve, precision: str) -> None:
    out = tmp_path / "run"
    nano.finished("run", out, *LEARNS, f"train.precision={precision}")
    losses = curve(out, "train/loss")
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    assert all(tensor.isfinite().all() for tensor in load_file(out / "checkpoints" / "last.safetensors").values())


@pytest.mark.parametrize("settings", [("model.language_bits=4",), ("train.optimizer=adamw_8bit",)])
def test_it_learns_with_bitsandbytes(nano: Nano, tmp_path: Path, curve: Curve, settings: tuple[str, ...]) -> None:
    pytest.importorskip("bitsandbytes")
    run, again = tmp_path / "run", tmp_path / "again"
    nano.finished("run", run, *LEARNS, *settings)
    losses = curve(run, "train/loss")
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    best = run / "checkpoints" / "best.safetensors"
    nano.finished("eval", again, *LEARNS, *settings, f"model.checkpoint={best}")
    assert _logprobs(again) == pytest.approx(_logprobs(run), abs=1e-4)


def test_a_run_that_was_broken_off_ends_as_an_unbroken_one(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    settings = ("train.max_steps=24", "eval.every_steps=2", "eval.val_questions=3")
    nano.finished("run", whole, *settings)
    process = nano.launched("run", broken, *settings)
    while RunFolder(broken).saved_step() < 2 and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    nano.finished("run", broken, *settings, extra=("--resume",))
    assert curve(broken, "train/loss") == pytest.approx(curve(whole, "train/loss"), abs=1e-4)
    assert _logprobs(broken) == pytest.approx(_logprobs(whole), abs=1e-3)


def _logprobs(run: Path) -> dict[str, float]:
    """Returns the best option's log-probability of each question after training."""
    rows = [json.loads(line) for line in (run / "final" / "predictions.jsonl").read_text().splitlines()]
    chosen = [row for row in rows if row["option_logprobs"]]
    assert chosen
    return {f"{row['question_id']} {row['condition']}": max(row["option_logprobs"]) for row in chosen}
