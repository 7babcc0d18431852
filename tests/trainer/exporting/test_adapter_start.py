"""Tests runs that begin from an adapter: zero-shot is the adapter's model, and training goes on from there."""

import json
from pathlib import Path

import pytest
import torch

from medtune.trainer.experiment.load_model import load_as_left
from medtune.trainer.experiment.run_folder import RunFolder
from tests.trainer.conftest import Nano

NAME = "model.name=nano_qwen25vl"
QUICK = (NAME, "eval.readings=[likelihood]", "eval.conditions=[image]", "train.max_steps=2")
STEEP = "model.tuning.language.lr=0.05"


@pytest.fixture(scope="module")
def first(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "first"
    assert Nano(prepared_tiny).here("run", out, *QUICK, STEEP) == 0
    return out


def answers(folder: Path) -> dict[str, list[float]]:
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return {line["question_id"]: line["option_logprobs"] for line in lines}


def close(left: Path, right: Path) -> bool:
    a, b = answers(left), answers(right)
    return a.keys() == b.keys() and all(a[key] == pytest.approx(b[key], abs=1e-3) for key in a)


@pytest.mark.slow
def test_zero_shot_is_the_adapter_and_training_goes_on_from_it(first: Path, nano: Nano, tmp_path: Path) -> None:
    adapter = first / "checkpoints" / "adapter"
    second = tmp_path / "second"
    assert nano.here("run", second, *QUICK, STEEP, f"model.adapter={adapter}") == 0
    assert close(second / "zero_shot", first / "final")
    assert not close(second / "zero_shot", first / "zero_shot")
    assert not close(second / "final", second / "zero_shot")
    said = json.loads((second / "weights.json").read_text())
    assert f"the adapter {adapter} merged in" in said["language"]
    assert "the adapter" in said["projector"]
    assert "the adapter" not in said["vision"]
    assert "the adapter" in (second / "report.html").read_text()
    assert "began from the adapter" in (second / "checkpoints" / "adapter" / "README.md").read_text()
    # A resumed run finds the adapter again, and the trained weights fit no other one.
    recipe, _ = load_as_left(RunFolder(second), torch.device("cpu"))
    assert recipe.model.adapter == str(adapter)
    settings = (*QUICK, f"model.checkpoint={second / 'checkpoints' / 'best.safetensors'}")
    assert nano.here("eval", tmp_path / "third", *settings, f"model.adapter={adapter}") == 0
    assert close(tmp_path / "third" / "final", second / "final")
    assert nano.here("eval", tmp_path / "fourth", *settings) == 1


def test_weights_that_were_trained_on_another_adapter_are_refused(
    first: Path, nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = (*QUICK, f"model.checkpoint={first / 'checkpoints' / 'best.safetensors'}")
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    assert nano.here("eval", tmp_path / "run", *settings, adapter) == 1
    assert "trained on top of no adapter; set model.adapter as in the run that wrote it" in capsys.readouterr().err


@pytest.mark.slow
def test_an_adapter_is_merged_before_the_language_model_is_held_in_4_bits(
    first: Path, nano: Nano, tmp_path: Path
) -> None:
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    assert nano.here("eval", tmp_path / "four", *QUICK, adapter, "model.language_bits=4") == 0
    found, whole = answers(tmp_path / "four" / "zero_shot"), answers(first / "final")
    plain = answers(first / "zero_shot")

    def apart(other: dict[str, list[float]]) -> float:
        return sum(abs(a - b) for key in found for a, b in zip(found[key], other[key], strict=True))

    assert 0 < apart(whole) < apart(plain)


@pytest.mark.slow
def test_a_run_is_not_resumed_with_another_adapter(first: Path, nano: Nano, tmp_path: Path) -> None:
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    assert nano.here("train", tmp_path / "run", *QUICK, STEEP, adapter) == 0
    assert nano.here("train", tmp_path / "run", *QUICK, STEEP, adapter, extra=("--resume",)) == 0
    assert nano.here("train", tmp_path / "run", *QUICK, STEEP, extra=("--resume",)) == 1


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("deepspeed_stage_2", marks=pytest.mark.soak),
        pytest.param("deepspeed_stage_3", marks=pytest.mark.slow),
    ],
)
def test_sharded_training_from_an_adapter_equals_one_device(
    strategy: str, first: Path, nano: Nano, tmp_path: Path
) -> None:
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    one, two = tmp_path / "one", tmp_path / "two"
    nano.finished("run", one, *QUICK, adapter)
    nano.finished("run", two, *QUICK, adapter, "train.devices=2", f"train.strategy={strategy}")
    assert close(two / "zero_shot", one / "zero_shot")
    assert close(two / "final", one / "final")


@pytest.mark.slow
def test_a_sharded_run_writes_a_whole_adapter(nano: Nano, tmp_path: Path) -> None:
    two, again = tmp_path / "two", tmp_path / "again"
    nano.finished("run", two, *QUICK, STEEP, "train.devices=2", "train.strategy=deepspeed_stage_3")
    assert nano.here("eval", again, *QUICK, f"model.adapter={two / 'checkpoints' / 'adapter'}") == 0
    assert close(again / "zero_shot", two / "final")
    assert not close(two / "zero_shot", two / "final")
