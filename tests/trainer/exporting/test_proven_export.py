"""Tests exports of runs of tiny models, each read by a process of its own and compared with the trained model."""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from medtune.models.weights.export import write_exported
from medtune.models.weights.hub import PROOF
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.load_model import load_as_left
from medtune.trainer.runs.run_folder import RunFolder
from tests.soak import in_suites
from tests.trainer.conftest import Capture, Nano, json_of

Runs = Callable[..., Path]
forked = pytest.mark.usefixtures("forked_readers")
QUICK = ("eval.readings=[likelihood]", "eval.conditions=[image]", "model.tuning.language.lr=0.05", "train.max_steps=2")


@pytest.fixture(scope="module")
def run_of(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Returns a function that trains a model and returns the folder of its run; the same run is made once."""
    made: dict[tuple[str, ...], Path] = {}

    def run(name: str, *settings: str) -> Path:
        if (name, *settings) not in made:
            out = tmp_path_factory.mktemp("runs") / "run"
            assert Nano(prepared_tiny).here("train", out, *QUICK, f"model.name={name}", *settings) == 0
            made[name, *settings] = out
        return made[name, *settings]

    return run


def exported(run: Path, out: Path, *options: str) -> dict[str, object]:
    assert main(["export", str(run), "--out", str(out), "--samples", "2", *options]) == 0
    proof: dict[str, object] = json_of(out / PROOF)
    return proof


OF_TRANSFORMERS = ("nano_qwen25vl", "nano_gemma3", "nano_mllama", "nano_llava")
MERGED: tuple[str, ...] = ()
ADAPTER = ("--adapter",)
IN_SLOW = (("nano_mllama", ADAPTER),)
"""qwen25vl has both ways in tests of its own, and `make soak` has all."""


@forked
def test_plain_transformers_says_the_same_as_the_run(run_of: Runs, tmp_path: Path, capsys: Capture) -> None:
    proof = exported(run_of("nano_qwen25vl"), tmp_path / "model")
    assert str(proof["reader"]).startswith("transformers 5.")
    assert proof["difference"]["largest"] < 1e-4  # type: ignore[index]
    assert proof["tells_trained_from_untrained"]
    assert proof["origin"] == "questions of the split test of busi"
    told, card = capsys.readouterr().out, (tmp_path / "model" / "README.md").read_text()
    for text in (told, card):
        assert "Proven with transformers" in text
        assert "4.57 does not know" in text
        assert "vLLM 0.33" in text


@pytest.mark.slow
def test_a_new_python_without_medtune_says_the_same_as_the_run(run_of: Runs, tmp_path: Path) -> None:
    proof = exported(run_of("nano_qwen25vl"), tmp_path / "model")
    assert str(proof["reader"]).startswith("transformers 5.")
    assert proof["difference"]["largest"] < 1e-4  # type: ignore[index]


@forked
@pytest.mark.slow
def test_plain_peft_says_the_same_as_the_run(run_of: Runs, tmp_path: Path) -> None:
    run = run_of("nano_qwen25vl")
    proof = exported(run, tmp_path / "adapter", "--adapter")
    assert "peft 0." in str(proof["reader"])
    assert proof["difference"]["largest"] < 1e-4  # type: ignore[index]
    ours = load_file(run / "checkpoints" / "adapter" / "adapter_model.safetensors")
    same = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert ours.keys() == same.keys()
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    card = (tmp_path / "adapter" / "README.md").read_text()
    for words in ("library_name: peft", "base model: nano", "PeftModel.from_pretrained", "modules_to_save"):
        assert words in card


@forked
@pytest.mark.parametrize(("name", "how"), in_suites(product(OF_TRANSFORMERS, (MERGED, ADAPTER)), slow=IN_SLOW))
def test_every_family_proves_itself(name: str, how: tuple[str, ...], run_of: Runs, tmp_path: Path) -> None:
    proof = exported(run_of(name), tmp_path / "out", *how)
    assert str(proof["reader"]).startswith("transformers 5.")
    assert proof["tells_trained_from_untrained"]


@forked
@pytest.mark.parametrize(
    "name",
    [pytest.param("nano_pocket", marks=pytest.mark.slow), pytest.param("nano_llava_video", marks=pytest.mark.soak)],
)
def test_what_plain_transformers_cannot_read_medtune_reads_in_a_process_of_its_own(
    name: str, run_of: Runs, tmp_path: Path
) -> None:
    proof = exported(run_of(name), tmp_path / "out")
    assert str(proof["reader"]).startswith("medtune ")
    assert proof["tells_trained_from_untrained"]


@pytest.mark.soak
def test_a_new_python_with_medtune_reads_what_plain_transformers_cannot(run_of: Runs, tmp_path: Path) -> None:
    proof = exported(run_of("nano_pocket"), tmp_path / "out")
    assert str(proof["reader"]).startswith("medtune ")
    assert proof["tells_trained_from_untrained"]


@pytest.mark.slow
@forked
def test_the_adapter_of_a_model_of_three_modules_proves_itself(run_of: Runs, tmp_path: Path) -> None:
    assert str(exported(run_of("nano_pocket"), tmp_path / "out", "--adapter")["reader"]).startswith("medtune ")


@forked
@pytest.mark.parametrize(
    "dtype", [pytest.param("bfloat16", marks=pytest.mark.slow), pytest.param("float16", marks=pytest.mark.soak)]
)
def test_sixteen_bits_stay_within_their_tolerance(dtype: str, run_of: Runs, tmp_path: Path) -> None:
    proof = exported(run_of("nano_qwen25vl"), tmp_path / "out", "--dtype", dtype)
    assert proof["difference"]["largest"] > 1e-4  # type: ignore[index]
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {getattr(torch, dtype)}


@pytest.mark.slow
@forked
def test_qlora_merges_into_the_base_and_reports_the_gap(run_of: Runs, tmp_path: Path, capsys: Capture) -> None:
    proof = exported(run_of("nano_qwen25vl", "model.language_bits=4"), tmp_path / "out")
    assert proof["difference"]["largest"] < 1e-3  # type: ignore[index]
    assert proof["four_bits_gap"]["largest"] > 1e-2  # type: ignore[index]
    assert "in 4 bits; the adapters were merged into the base" in capsys.readouterr().out


@pytest.mark.slow
@forked
def test_an_export_that_is_not_the_trained_model_is_refused_and_leaves_nothing(
    run_of: Runs, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(assembled: object, folder: Path, **more: object) -> None:
        write_exported(assembled, folder, **more)  # type: ignore[arg-type]
        tensors = load_file(folder / "model.safetensors")
        name = next(name for name in tensors if "down_proj" in name)
        save_file({**tensors, name: -tensors[name]}, folder / "model.safetensors", metadata={"format": "pt"})

    monkeypatch.setattr("medtune.trainer.exporting.write_exported", spoilt)
    run = run_of("nano_qwen25vl")
    assert main(["export", str(run), "--out", str(tmp_path / "out"), "--samples", "2"]) == 1
    assert "the export is not the merged model" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@forked
def test_made_up_samples_stand_in_for_data_that_are_gone(
    run_of: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(run_of("nano_qwen25vl"), tmp_path / "run")
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("prepared", "gone"))
    assert "random media" in str(exported(run, tmp_path / "out")["origin"])


def test_without_a_proof_the_card_says_so(run_of: Runs, tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(run_of("nano_qwen25vl")), "--out", str(tmp_path / "out"), "--no-proof"]) == 0
    assert "Not proven" in (tmp_path / "out" / "README.md").read_text()
    assert "Not proven" in capsys.readouterr().out
    assert not (tmp_path / "out" / PROOF).exists()
    asked = ["export", str(run_of("nano_qwen25vl")), "--out", str(tmp_path / "more")]
    assert main([*asked, "--no-proof", "--push-to-hub", "a/b"]) == 1
    assert main([*asked, "--private"]) == 1
    assert main([*asked, "--samples", "0"]) == 1
    assert not (tmp_path / "more").exists()


def test_an_adapter_that_peft_cannot_express_is_refused(run_of: Runs, tmp_path: Path, capsys: Capture) -> None:
    run = run_of("nano_qwen25vl", "model.tuning.language.mode=frozen")
    assert [path.name for path in (run / "checkpoints" / "adapter").iterdir()] == ["README.md"]
    assert main(["export", str(run), "--out", str(tmp_path / "out"), "--adapter"]) == 1
    assert "the run trained no LoRA adapter" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


NAME = "model.name=nano_qwen25vl"
QUICK_OF_ADAPTER_START = (NAME, "eval.readings=[likelihood]", "eval.conditions=[image]", "train.max_steps=2")
STEEP = "model.tuning.language.lr=0.05"


@pytest.fixture(scope="module")
def first(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "first"
    assert Nano(prepared_tiny).here("run", out, *QUICK_OF_ADAPTER_START, STEEP) == 0
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
    assert nano.here("run", second, *QUICK_OF_ADAPTER_START, STEEP, f"model.adapter={adapter}") == 0
    assert close(second / "zero_shot", first / "final")
    assert not close(second / "zero_shot", first / "zero_shot")
    assert not close(second / "final", second / "zero_shot")
    said = json_of(second / "weights.json")
    assert f"the adapter {adapter} merged in" in said["language"]
    assert "the adapter" in said["projector"]
    assert "the adapter" not in said["vision"]
    assert "the adapter" in (second / "report.html").read_text()
    assert "began from the adapter" in (second / "checkpoints" / "adapter" / "README.md").read_text()
    # A resumed run finds the adapter again, and the trained weights fit no other one.
    recipe, _ = load_as_left(RunFolder(second), torch.device("cpu"))
    assert recipe.model.adapter == str(adapter)
    settings = (*QUICK_OF_ADAPTER_START, f"model.checkpoint={second / 'checkpoints' / 'best.safetensors'}")
    assert nano.here("eval", tmp_path / "third", *settings, f"model.adapter={adapter}") == 0
    assert close(tmp_path / "third" / "final", second / "final")
    assert nano.here("eval", tmp_path / "fourth", *settings) == 1


def test_weights_that_were_trained_on_another_adapter_are_refused(
    first: Path, nano: Nano, tmp_path: Path, capsys: Capture
) -> None:
    settings = (*QUICK_OF_ADAPTER_START, f"model.checkpoint={first / 'checkpoints' / 'best.safetensors'}")
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    assert nano.here("eval", tmp_path / "run", *settings, adapter) == 1
    assert "trained on top of no adapter; set model.adapter as in the run that wrote it" in capsys.readouterr().err


@pytest.mark.slow
def test_an_adapter_is_merged_before_the_language_model_is_held_in_4_bits(
    first: Path, nano: Nano, tmp_path: Path
) -> None:
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    assert nano.here("eval", tmp_path / "four", *QUICK_OF_ADAPTER_START, adapter, "model.language_bits=4") == 0
    found, whole = answers(tmp_path / "four" / "zero_shot"), answers(first / "final")
    plain = answers(first / "zero_shot")

    def apart(other: dict[str, list[float]]) -> float:
        return sum(abs(a - b) for key in found for a, b in zip(found[key], other[key], strict=True))

    assert 0 < apart(whole) < apart(plain)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["deepspeed_stage_2", "deepspeed_stage_3"])
def test_sharded_training_from_an_adapter_equals_one_device(
    strategy: str, first: Path, nano: Nano, tmp_path: Path
) -> None:
    adapter = f"model.adapter={first / 'checkpoints' / 'adapter'}"
    one, two = tmp_path / "one", tmp_path / "two"
    nano.finished("run", one, *QUICK_OF_ADAPTER_START, adapter)
    nano.finished("run", two, *QUICK_OF_ADAPTER_START, adapter, "train.devices=2", f"train.strategy={strategy}")
    assert close(two / "zero_shot", one / "zero_shot")
    assert close(two / "final", one / "final")


# In the slow suite such adapters are compared with those of one device (tests/trainer/devices/test_strategies.py).
@pytest.mark.soak
def test_a_sharded_run_writes_a_whole_adapter(nano: Nano, tmp_path: Path) -> None:
    two, again = tmp_path / "two", tmp_path / "again"
    nano.finished("run", two, *QUICK_OF_ADAPTER_START, STEEP, "train.devices=2", "train.strategy=deepspeed_stage_3")
    assert nano.here("eval", again, *QUICK_OF_ADAPTER_START, f"model.adapter={two / 'checkpoints' / 'adapter'}") == 0
    assert close(again / "zero_shot", two / "final")
    assert not close(two / "zero_shot", two / "final")
