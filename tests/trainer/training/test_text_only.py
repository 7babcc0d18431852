"""A forward pass that reaches nothing that learns has a gradient of zeros, under every strategy."""

import signal
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.soak import in_suites
from tests.trainer.conftest import Curve, Nano, same_weights, weights_apart

# With this seed and share, steps of one group show an image, show none, and the other way about.
MIXED = ("train.text_only_share=0.6", "train.batch_size=1", "train.micro_batch_size=1", "train.max_steps=8",
         "eval.every_steps=8", "eval.val_questions=2", "model.tuning.language.mode=frozen")  # fmt: skip
STRATEGIES = ("ddp", "fsdp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3")


@pytest.fixture(scope="module")
def alone(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "run"
    assert Nano(prepared_tiny).here("train", out, *MIXED) == 0
    return out


def test_validate_and_run_agree_and_steps_without_images_move_nothing(
    prepared_tiny: Path, alone: Path, curve: Curve
) -> None:
    settings = [f"data.root={prepared_tiny}", *MIXED]
    assert main(["validate", "nano_busi_lora", "--set", *settings]) == 0
    norms = curve(alone, "train/gradient_norm")
    assert len(norms) == 8
    assert 0 < sum(norm == 0 for norm in norms) < 8


@pytest.mark.parametrize("strategy", in_suites(STRATEGIES, plain=(), slow=("fsdp", "deepspeed_stage_3")))
def test_one_device_under_every_strategy(nano: Nano, alone: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    nano.finished("train", tmp_path / "run", *MIXED, f"train.strategy={strategy}")
    assert curve(tmp_path / "run", "train/loss") == pytest.approx(curve(alone, "train/loss"), abs=1e-6)
    assert weights_apart(tmp_path / "run", alone) < 1e-4


def test_a_run_that_was_stopped_before_such_a_step_goes_on(nano: Nano, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    status, said = nano.stopped(1, signal.SIGTERM, "train", out, *MIXED, "train.save_every_steps=1")
    assert status in (0, 130), said
    assert nano.here("train", out, *MIXED, "train.save_every_steps=1", extra=("--resume",)) == 0
    assert same_weights(out, alone)


@pytest.mark.parametrize("strategy", in_suites(("auto", "ddp", "deepspeed_stage_2", "fsdp"), plain=("auto",)))
def test_layers_that_attend_to_images_alone_may_learn(nano: Nano, tmp_path: Path, curve: Curve, strategy: str) -> None:
    """The language model is not frozen, and yet rows without an image reach none of what learns."""
    settings = (*MIXED[:-1], "model.name=nano_mllama", "model.tuning.projector.mode=frozen",
                "model.tuning.language.lora.targets='.*cross_attn.*'", f"train.strategy={strategy}")  # fmt: skip
    nano.finished("train", tmp_path / "run", *settings)
    assert 0 < sum(norm == 0 for norm in curve(tmp_path / "run", "train/gradient_norm")) < 8
