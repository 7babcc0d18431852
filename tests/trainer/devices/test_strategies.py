"""Tests that two gloo processes give the same losses, gradients, weights and answers as one device."""

import functools
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.trainer.commands.cli import main
from medtune.trainer.launch.started import how_started
from tests.soak import in_suites
from tests.trainer.conftest import Curve, Nano, Told, weights_apart

TEXT_ALONE_IN_SLOW = (("nano_qwen25vl", "deepspeed_stage_3"),)
"""The pairs of the slow suite: an image beside the row and one in it, each strategy that divides weights."""
TEXT_ALONE = ("train.text_only_share=0.4", "train.batch_size=3", "train.micro_batch_size=1", "train.max_steps=3",
              "eval.every_steps=3", "eval.val_questions=2")  # fmt: skip
# Five groups in parts of one over two devices: three accumulated parts, of which the last has one group for two.
UNEVEN = ("train.max_steps=3", "train.batch_size=5", "train.micro_batch_size=1", "train.clip_norm=3.6",
          "eval.every_steps=3", "eval.max_new_tokens=2")  # fmt: skip


@pytest.fixture(scope="module")
def one_device(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one") / "run"
    Nano(prepared_tiny).finished("run", out, *UNEVEN)
    return out


@pytest.mark.parametrize(
    "strategy",
    [
        # In the slow suite with its gradients in test_divided_training.py, and on four ranks up to the answers in
        # tests/trainer/launch/test_two_nodes.py.
        pytest.param("ddp", marks=pytest.mark.soak),
        # Without a run around it in every suite (test_divided_training.py).
        pytest.param("fsdp", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_1", marks=pytest.mark.soak),
        # With weights in 4 bits in the slow suite (tests/trainer/training/test_weight_average.py).
        pytest.param("deepspeed_stage_2", marks=pytest.mark.soak),
        # In two stages in the slow suite (tests/trainer/training/states/test_states.py).
        pytest.param("deepspeed_stage_3", marks=pytest.mark.soak),
    ],
)
def test_two_devices_equal_one(nano: Nano, one_device: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    out = tmp_path / "run"
    nano.finished("run", out, *UNEVEN, "train.devices=2", f"train.strategy={strategy}")
    assert len(curve(out, "train/loss")) == 3
    assert curve(out, "train/loss") == pytest.approx(curve(one_device, "train/loss"), abs=1e-6)
    assert curve(out, "train/gradient_norm") == pytest.approx(curve(one_device, "train/gradient_norm"), rel=1e-4)
    assert curve(out, "train/lr_language") == curve(one_device, "train/lr_language")
    for name in ("loss", "token_accuracy", "choice_accuracy", "f1", "ece", "accuracy", "accuracy_n"):
        assert curve(out, f"val/{name}") == pytest.approx(curve(one_device, f"val/{name}"), abs=1e-3), name
    assert curve(out, "val/loss")
    assert weights_apart(out, one_device) < 1e-4
    for phase, wanted in (("zero_shot", 18), ("final", 27)):
        answered = _answers(out / phase)
        assert len(answered) == wanted, "9 questions, each in two readings, and at the end text-only"
        assert answered == pytest.approx(_answers(one_device / phase), abs=1e-3)


@pytest.fixture(scope="module")
def with_text_alone(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the run of a model on one device that the runs on two are compared with, trained once."""
    folder = tmp_path_factory.mktemp("with_text_alone")

    @functools.cache
    def trained(name: str) -> Path:
        Nano(prepared_tiny).finished("train", folder / name, f"model.name={name}", *TEXT_ALONE)
        return folder / name

    return trained


@pytest.mark.parametrize(
    ("name", "strategy"),
    in_suites(
        product(
            ("nano_pocket", "nano_mllama", "nano_qwen25vl"), ("ddp", "fsdp", "deepspeed_stage_2", "deepspeed_stage_3")
        ),
        slow=TEXT_ALONE_IN_SLOW,
    ),
)
def test_a_device_with_text_alone_beside_one_with_images(
    nano: Nano, with_text_alone: Callable[[str], Path], tmp_path: Path, curve: Curve, name: str, strategy: str
) -> None:
    one, two = with_text_alone(name), tmp_path / "two"
    spread = ("train.devices=2", f"train.strategy={strategy}")
    nano.finished("train", two, f"model.name={name}", *TEXT_ALONE, *spread)
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-6)
    assert curve(two, "train/gradient_norm") == pytest.approx(curve(one, "train/gradient_norm"), rel=1e-4)
    assert weights_apart(two, one) < 1e-4
    mine, theirs = (load_file(run / "checkpoints" / "adapter" / "adapter_model.safetensors") for run in (two, one))
    assert mine.keys() == theirs.keys()
    assert max(float((mine[each] - theirs[each]).abs().max()) for each in theirs) < 1e-4


def _answers(phase: Path) -> dict[str, float]:
    """Returns the best option's log-probability of each prediction, 0 for generations; fails if a key occurs twice."""
    found: dict[str, float] = {}
    for line in (phase / "predictions.jsonl").read_text().splitlines():
        row = json.loads(line)
        key = f"{row['question_id']} {row['condition']} {row['reading']}"
        assert key not in found
        found[key] = max(row["option_logprobs"] or [0.0])
    return found


def test_a_number_of_processes_without_a_rank_is_refused(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert "WORLD_SIZE is 3 and RANK is not set" in refused(nano.here("run", tmp_path / "run", "train.devices=2"))


@pytest.mark.parametrize("strategy", [pytest.param("fsdp", marks=pytest.mark.soak), "deepspeed_stage_3"])
def test_what_divides_weights_also_trains_on_one_device(
    nano: Nano, tmp_path: Path, curve: Curve, strategy: str
) -> None:
    plain, divided, asked = tmp_path / "plain", tmp_path / "divided", tmp_path / "asked"
    short = ("train.max_steps=2", "eval.readings=[likelihood]", "eval.conditions=[image]")
    assert nano.here("run", plain, *short) == 0
    assert nano.here("run", divided, *short, f"train.strategy={strategy}") == 0
    assert how_started().how == "alone", "DeepSpeed's variables of a launcher are gone"
    assert curve(divided, "train/loss") == pytest.approx(curve(plain, "train/loss"), abs=1e-6)
    assert _answers(divided / "final") == pytest.approx(_answers(plain / "final"), abs=1e-4)
    assert main(["eval", str(divided), "--out", str(asked), "--set", "log.wandb=disabled"]) == 0
    assert _answers(asked / "final") == pytest.approx(_answers(divided / "final"), abs=1e-6)
