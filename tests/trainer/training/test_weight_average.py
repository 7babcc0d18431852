"""Tests the moving average of the weights: its formula, what is evaluated and saved, and that it survives a stop."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.overrides import TorchFunctionMode

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.quantize import quantize_language
from medtune.models.weights.checkpoint import read_about
from medtune.trainer.commands.cli import main
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import held
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training.step_losses import NonFiniteLossError, StepLosses
from tests.soak import in_suites
from tests.trainer.conftest import Capture, Curve, Nano, Told, json_of, weights_apart

EMA = "train.ema_decay=0.6"
SAME_RATE = ("train.schedule=constant", "train.warmup_ratio=0", "eval.every_steps=100", "eval.val_questions=2",
             "model.tuning.language.lr=0.01")  # fmt: skip


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
    nano: Nano, tmp_path: Path, curve: Curve, capsys: Capture, shown: Told
) -> None:
    settings = ("train.max_steps=4", "eval.every_steps=2", "model.tuning.language.lr=0.05", "eval.conditions=[image]")
    plain, averaged, again = tmp_path / "plain", tmp_path / "averaged", tmp_path / "again"
    assert nano.here("train", plain, *settings) == 0
    capsys.readouterr()
    assert "moving average of the weights (train.ema_decay 0.6)" in shown(nano.here("train", averaged, *settings, EMA))
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


READS = ("item", "tolist", "__float__", "__bool__", "__int__", "cpu", "numpy")


class _Reads(TorchFunctionMode):
    """Counts how often values of tensors are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in READS
        return func(*args, **(kwargs or {}))


def test_a_step_of_many_passes_is_read_once() -> None:
    losses = StepLosses()
    with _Reads() as reads:
        for number in range(5):
            losses.add(torch.tensor(0.1 * number, requires_grad=True), (f"q{number}",))
        assert reads.count == 0
        assert losses.read(step=3, norm=torch.tensor(7.0)) == 7.0
        assert reads.count == 1
    assert losses.total == pytest.approx(1.0)
    assert len(losses) == 0


def test_further_passes_are_added_until_the_step_is_forgotten() -> None:
    losses = StepLosses()
    for _ in range(2):
        losses.add(torch.tensor(0.25), ("q",))
        assert math.isnan(losses.read(step=1))
    assert losses.total == 0.5
    losses.forget()
    assert losses.total == 0.0
    assert math.isnan(losses.read(step=2))


def test_the_pass_whose_loss_is_not_finite_is_named_and_no_other() -> None:
    losses = StepLosses()
    losses.add(torch.tensor(1.0), ("fine",))
    losses.add(torch.tensor(float("inf")), tuple(f"odd{number}" for number in range(9)))
    with pytest.raises(
        NonFiniteLossError, match=r"the loss is inf at step 4; .* odd0, .*, odd7, \.\.\.\. Lower"
    ) as said:
        losses.read(step=4, norm=torch.tensor(float("nan")))
    assert "fine" not in str(said.value)


def test_a_gradient_that_is_not_finite_is_named_before_it_reaches_the_weights() -> None:
    losses = StepLosses()
    losses.add(torch.tensor(0.5), ("one", "two"))
    with pytest.raises(
        NonFiniteLossError, match=r"the norm of the gradient is nan at step 4, and the loss is 0\.5; .* one, two"
    ):
        losses.read(step=4, norm=torch.tensor(float("nan")))
    # A scaler of float16 leaves such a step out by itself.
    assert losses.read(step=5, norm=torch.tensor(float("inf")), is_scaled=True) == math.inf


HELD = "model.language_bits=4"


@pytest.mark.parametrize("name", ["nano_pocket", pytest.param("nano_qwen25vl", marks=pytest.mark.soak)])
def test_run_learns_and_reads_its_adapters_back(nano: Nano, tmp_path: Path, curve: Curve, name: str) -> None:
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
    assert "4 bits" in json_of(run / "weights.json")["language"]
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


def test_validate_shows_what_is_held(capsys: Capture) -> None:
    settings = [HELD, "model.name=nano_qwen25vl", "train.precision=bf16-mixed"]
    main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings, "--devices", "1xA5000-24GB"])
    said = capsys.readouterr().out
    assert "lora, 4 bit" in said
    assert "GPU memory" not in said


@pytest.mark.parametrize("strategy", in_suites(("ddp", "deepspeed_stage_2"), slow=("deepspeed_stage_2",)))
def test_two_devices_equal_one(nano: Nano, tmp_path: Path, curve: Curve, strategy: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    nano.finished("train", one, HELD)
    nano.finished("train", two, HELD, "train.devices=2", f"train.strategy={strategy}")
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-4)


LEARNS = ("train.max_steps=16", "eval.every_steps=16", "model.tuning.language.lr=0.01")


@pytest.fixture(scope="module")
def on_a_cpu(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cpu") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        Nano(prepared_tiny).finished("run", out)
    return out


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["auto", "ddp", "deepspeed_stage_2", "deepspeed_stage_3"])
def test_a_run_is_a_cpus(nano: Nano, on_a_cpu: Path, tmp_path: Path, curve: Curve, strategy: str) -> None:
    if strategy.startswith("deepspeed"):
        pytest.importorskip("deepspeed")
    out = tmp_path / "run"
    nano.finished("run", out, f"train.strategy={strategy}")
    assert torch.cuda.get_device_name(0) in (out / "environment.json").read_text()
    assert curve(out, "train/peak_memory_gb")[-1] > 0
    assert curve(out, "train/loss") == pytest.approx(curve(on_a_cpu, "train/loss"), abs=2e-3)
    assert weights_apart(out, on_a_cpu) < 2e-3
    assert _logprobs(out) == pytest.approx(_logprobs(on_a_cpu), abs=2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_it_learns_in_16_bits(nano: Nano, tmp_path: Path, curve: Curve, precision: str) -> None:
    out = tmp_path / "run"
    nano.finished("run", out, *LEARNS, f"train.precision={precision}")
    losses = curve(out, "train/loss")
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])
    assert all(tensor.isfinite().all() for tensor in load_file(out / "checkpoints" / "last.safetensors").values())


@pytest.mark.gpu
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


@pytest.mark.gpu
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
