"""Tests of early stopping: where it ends a stage, what it leaves behind, and where a killed run ends."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from medtune.models.weights.divided.files import read_range
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import read_recipe
from tests.trainer.conftest import Nano

Curve = Callable[[Path, str], list[float]]
# So large a change counts that the first validation stays the best one.
STOPS = (
    "train.max_steps=12", "eval.every_steps=2", "eval.val_questions=3", "train.batch_size=2", "eval.conditions=[image]",
    "train.early_stopping.metric=loss", "train.early_stopping.patience=2", "train.early_stopping.min_delta=9",
)  # fmt: skip
WHY = "stopped at step 6 of 12 because val/loss had not improved by 9 or more in 2 validations (best "


def test_a_stage_ends_when_validations_no_longer_improve(
    nano: Nano, tmp_path: Path, curve: Curve, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert nano.here("run", out, *STOPS) == 0
    said = capsys.readouterr().out
    assert WHY in said
    assert len(curve(out, "train/loss")) == 6
    assert len(curve(out, "val/loss")) == 3
    assert (out / "checkpoints" / "last.safetensors").is_file()
    assert RunFolder(out).saved_step() == 6
    assert json.loads((out / "results.json").read_text())["stopped_early"].startswith(WHY)
    assert WHY in (out / "report.html").read_text()


def test_while_a_metric_improves_training_goes_on(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    out, settings = tmp_path / "run", ("train.early_stopping.min_delta=0", "model.tuning.language.lr=0.005")
    assert nano.here("train", out, *STOPS, *settings, "train.early_stopping.patience=3") == 0
    losses = curve(out, "val/loss")
    assert len(losses) == 6, losses
    assert losses[-1] < losses[0]
    assert RunFolder(out).early_stops == {}


def test_each_stage_counts_for_itself(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    stages = (
        "train.stages=[{name: first, max_steps: 8, tuning: {language: {mode: frozen}}}, {name: second, max_steps: 10}]"
    )
    assert nano.here("train", out, *STOPS, "train.max_steps=null", stages) == 0
    stops = RunFolder(out).early_stops
    assert [why.partition(" because")[0] for why in stops.values()] == [
        "stopped at step 6 of 8",
        "stopped at step 6 of 10",
    ]
    assert len(curve(out, "train/loss")) == 12
    # The steps of the second stage are counted from where the first one would have ended.
    assert sorted(path.name for path in (out / "validation").iterdir())[3] == "step_000010"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.early_stopping.patience=0"], r"train\.early_stopping\.patience is 0; it must be at least 1"),
        (["train.early_stopping.min_delta=-1"], r"train\.early_stopping\.min_delta is -1.*; it must be at least 0"),
        (["train.early_stopping.metrik=loss"], r"no key 'train\.early_stopping\.metrik'\. Did you mean 'metric'"),
    ],
)
def test_wrong_settings_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe("nano_busi_lora", settings)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.early_stopping.metric=los", "train.early_stopping.metric is 'los'. Did you mean 'loss'? There are: "),
        (
            "eval.every_steps=4",
            "no stage is longer than 12 steps, which are validated every 4 steps (eval.every_steps)",
        ),
    ],
)
def test_what_could_never_stop_is_refused(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, message: str
) -> None:
    assert nano.here("train", tmp_path / "run", *STOPS, setting) == 1
    assert message in capsys.readouterr().err


def test_validate_says_when_a_stage_stops(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = nano.arguments("validate", tmp_path, *STOPS)
    assert main([each for each in arguments if each not in ("--out", str(tmp_path))]) == 0
    assert "stops early after 2 validations without a better val/loss, one every 2 steps" in capsys.readouterr().out


@pytest.mark.slow
def test_each_seed_stops_for_itself_with_stages_and_averaged_weights(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = (
        "train.stages=[{name: first, max_steps: 8, tuning: {language: {mode: frozen}}}, {name: second, max_steps: 10}]"
    )
    settings = (*STOPS, "train.max_steps=null", stages, "train.ema_decay=0.5")
    out = tmp_path / "series"
    assert nano.here("run", out, *settings, extra=("--seeds", "2")) == 0
    for seed in range(2):
        run = out / f"seed_{seed}"
        stopped = json.loads((run / "results.json").read_text())["stopped_early"]
        assert "stopped at step 6 of 8 because" in stopped
        assert "stopped at step 6 of 10 because" in stopped
        assert sorted(RunFolder(run).early_stops) == [1, 2]
        # The last weights are the averages, while the saved state holds the weights that are trained too.
        last, path = load_file(run / "checkpoints" / "last.safetensors"), RunFolder(run).saved_state()
        assert path is not None
        for name, each in last.items():
            average, trained = (
                read_range(path / "tensors", f"{kept}.{name}").view(each.shape)
                for kept in ("callback.WeightAverage", "model")
            )
            assert torch.equal(each, average)
            assert not torch.equal(each, trained)
    assert "accuracy over 2 seeds" in capsys.readouterr().out
    # A series that ended is not trained again.
    assert nano.here("run", out, *settings, extra=("--seeds", "2", "--resume")) == 0
    assert "stopped at step" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        pytest.param(None, ("train.ema_decay=0.5",), marks=pytest.mark.slow),
        pytest.param(None, (), marks=pytest.mark.soak),
        pytest.param("ddp", (), marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_2", (), marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", (), marks=pytest.mark.soak),
    ],
)
def test_a_killed_and_resumed_run_stops_at_the_same_step(
    nano: Nano, tmp_path: Path, curve: Curve, strategy: str | None, more: tuple[str, ...]
) -> None:
    spread = () if strategy is None else ("train.devices=2", f"train.strategy={strategy}")
    settings = (*STOPS, "train.max_steps=24", "train.early_stopping.patience=6", *spread, *more)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    nano.finished("train", whole, *settings)
    process = (nano.launched if spread else nano.process)("train", killed, *settings)
    deadline = time.monotonic() + 150
    while RunFolder(killed).saved_step() < 6 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert 6 <= RunFolder(killed).saved_step() < 14
    nano.finished("train", killed, *settings, extra=("--resume",))
    assert RunFolder(whole).early_stops == RunFolder(killed).early_stops != {}
    assert RunFolder(whole).saved_step() == RunFolder(killed).saved_step() == 14
    assert len(curve(killed, "train/loss")) == 14
    one, two = (load_file(run / "checkpoints" / "last.safetensors") for run in (whole, killed))
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=0 if strategy is None else 1e-6)
