"""Tests that `medtune validate` names everything that is missing for a run, and says how to get it."""

from pathlib import Path

import pytest

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import PartRow, apply_tuning, set_learning
from medtune.models.tuning.quantize import set_types
from medtune.trainer.commands.cli import main
from medtune.trainer.plan.devices import Devices, parse_devices
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import Held, held
from medtune.trainer.recipe.read import read_recipe

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without prepared folders."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("recipe", "hub_id", "gated", "parameters"),
    [
        ("llama32_11b_fetal_gauge_lora", "meta-llama/Llama-3.2-11B-Vision-Instruct", True, "10.67 billion"),
        ("qwen25vl_7b_fetal_gauge_lora", "Qwen/Qwen2.5-VL-7B-Instruct", False, "8.29 billion"),
    ],
)
def test_everything_missing_is_listed_at_once(
    recipe: str, hub_id: str, gated: bool, parameters: str, elsewhere: Path, capsys: Capture
) -> None:
    assert main(["validate", recipe]) == 1
    said = capsys.readouterr().out
    assert parameters in said
    assert "medtune prepare fetal_gauge --source table --from FOLDER --out prepared/fetal_gauge" in said
    assert f"hf download {hub_id}" in said
    assert "--set model.weights=/path/to/folder" in said
    assert ("It is gated" in said) == gated
    assert "GPU memory: at least" in said
    numbered = [line.split(":")[0] for line in said.splitlines() if line[:2] in ("1.", "2.", "3.")]
    assert numbered == ["1. prepared data", "2. weights", "3. GPU memory"]


@pytest.mark.slow
def test_a_named_machine_is_judged_by_its_memory(elsewhere: Path, capsys: Capture) -> None:
    arguments = ["validate", "qwen25vl_7b_fetal_gauge_lora", "--no-weights", "--devices"]
    assert main([*arguments, "1xH100-80GB"]) == 1
    said = capsys.readouterr().out
    assert "GPU memory" not in said
    assert "weights:" not in said
    assert "1. prepared data" in said
    assert main([*arguments, "1xRTX2080-8GB"]) == 1
    assert "RTX2080 has 8 GB" in capsys.readouterr().out


def test_devices_that_cannot_be_read(capsys: Capture) -> None:
    assert main(["validate", "nano_busi_lora", "--devices", "many"]) == 1
    assert "expected NxNAME-SIZEGB" in capsys.readouterr().err
    assert main(["validate", "nano_busi_lora", "--devices", "0x2xA100-40GB"]) == 1
    assert parse_devices("A100-40GB") == Devices(1, "A100", 40.0)
    assert parse_devices("2x8xA100-80GB") == Devices(8, "A100", 80.0, nodes=2)
    assert parse_devices("4xRTX 6000-48GB") == Devices(4, "RTX 6000", 48.0)


def _held(rows: tuple[PartRow, ...], *settings: str) -> Held:
    return held(read_recipe("nano_busi_lora", settings).train, rows, Divided(), is_gpu=False)


def test_memory_of_a_model_that_can_be_counted_by_hand() -> None:
    model = zoo_entry("nano_pocket").skeleton()
    rows = apply_tuning(model, read_recipe("nano_busi_lora").model.tuning, seed=0)
    total = sum(row.parameters for row in rows)
    learning = sum(row.trainable for row in rows)
    adapters = next(row.trainable for row in rows if row.part == "language")
    memory = _held(rows)
    assert memory.weights == pytest.approx(4 * (total + adapters))
    assert (memory.gradients, memory.moments) == (4 * learning, 8 * learning)
    assert (memory.masters, memory.average, memory.buffers, memory.gathered, memory.host) == (0, 0, 0, 0, 0)


def test_what_does_not_learn_is_stored_narrow_under_mixed_precision() -> None:
    recipe = read_recipe("nano_busi_lora")
    model = zoo_entry("nano_pocket").skeleton()
    wide = _held(apply_tuning(model, recipe.model.tuning, seed=0))
    set_types(model, "bf16-mixed")
    rows = set_learning(model, recipe.model.tuning)
    mixed = _held(rows)
    frozen = sum(row.parameters for row in rows if row.mode != "full")
    norms = sum(p.numel() for name, p in model.named_parameters() if "backbone.1." in name)
    assert wide.weights - mixed.weights == pytest.approx(2 * (frozen - norms))
    assert wide.moments == mixed.moments


def test_a_large_model_without_a_gpu_asks_for_the_name_of_a_machine(elsewhere: Path, capsys: Capture) -> None:
    assert main(["validate", "qwen25vl_7b_fetal_gauge_lora", "--no-weights"]) == 1
    assert "no GPU here. Name the machine" in capsys.readouterr().out


def test_local_folder_stands_for_the_hub(elsewhere: Path, capsys: Capture) -> None:
    empty = elsewhere / "weights"
    empty.mkdir()
    assert main(["validate", "qwen25vl_7b_fetal_gauge_lora", "--set", f"model.weights={empty}"]) == 1
    assert f"{empty} is neither a local folder" in capsys.readouterr().out
