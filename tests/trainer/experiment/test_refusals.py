"""Tests that the error message for wrong input names the file, the field and what to do."""

import errno
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import PIL.Image
import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import PartRow, apply_tuning, set_learning
from medtune.models.tuning.quantize import set_types
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.plan.devices import Devices, parse_devices
from medtune.trainer.plan.gathered import Divided
from medtune.trainer.plan.held import Held, held
from medtune.trainer.recipe.read import read_recipe
from tests.examples.fetal_gauge import write_fetal_gauge
from tests.trainer.conftest import Capture, Nano, Told


def test_empty_split_is_refused_and_test_only_data_can_be_evaluated(nano: Nano, tmp_path: Path, refused: Told) -> None:
    raw, prepared = tmp_path / "raw", tmp_path / "prepared"
    write_fetal_gauge(raw)
    rows = raw / "questions.jsonl"
    rows.write_text(rows.read_text().replace('"train"', '"test"').replace('"val"', '"test"'))
    assert main(["prepare", "fetal_gauge", "--source", "table", "--from", str(raw), "--out", str(prepared)]) == 0
    settings = (f"data.root={prepared}", "data.benchmark=fetal_gauge")
    assert "the split 'train' is empty" in refused(nano.here("run", tmp_path / "run", *settings))
    assert nano.here("eval", tmp_path / "eval", *settings, extra=("--limit", "6")) == 0


def test_truncated_image_is_named(nano: Nano, prepared_tiny: Path, tmp_path: Path, refused: Told) -> None:
    broken = tmp_path / "prepared"
    shutil.copytree(prepared_tiny, broken)
    image = sorted((broken / "media").iterdir())[0]
    image.write_bytes(image.read_bytes()[:60])
    assert image.name in refused(nano.here("run", tmp_path / "run", f"data.root={broken}"))


def test_nan_loss_stops_and_names_the_batch(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told
) -> None:
    from medtune.models.towers.image_tower import ImageTransform

    real = ImageTransform.__call__

    def poisoned(self: ImageTransform, image: object) -> torch.Tensor:
        return real(self, image) * torch.nan  # type: ignore[arg-type]

    monkeypatch.setattr(ImageTransform, "__call__", poisoned)
    message = refused(nano.here("train", tmp_path / "run"))
    assert "the loss is nan at step 1" in message
    assert "diagnosis-" in message


def test_group_without_gradient_stops_the_run(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told
) -> None:
    from medtune.models.vlm import VisionLanguageModel

    def detached(self: VisionLanguageModel, pixels_MCHW: torch.Tensor) -> torch.Tensor:
        tokens_MNE: torch.Tensor = self.projector(self.vision(pixels_MCHW))
        return tokens_MNE.detach()

    monkeypatch.setattr(VisionLanguageModel, "encode", detached)
    assert "the part 'projector' (full) has no gradient" in refused(nano.here("train", tmp_path / "run"))


def test_full_run_folder_is_not_written_over(nano: Nano, tmp_path: Path, refused: Told) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    assert "is not empty" in refused(nano.here("run", tmp_path / "run"))


def test_full_disk_while_answering(nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told) -> None:
    monkeypatch.setattr(os, "write", _no_space)
    message = refused(nano.here("eval", tmp_path / "run"))
    assert "disk is full" in message
    assert "--resume" in message


def test_full_disk_while_saving_weights(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told
) -> None:
    from medtune.models.weights import checkpoint

    monkeypatch.setattr(checkpoint, "save_file", _no_space)
    assert "disk is full" in refused(nano.here("train", tmp_path / "run"))
    assert not list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))


def _no_space(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(scope="module")
def weights(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one step."""
    out = tmp_path_factory.mktemp("trained") / "run"
    assert Nano(prepared_tiny).here("train", out, "train.max_steps=1", "eval.val_questions=2") == 0
    return out / "checkpoints" / "last.safetensors"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("model.name=nano_qwen25vl", "trained weights of the model nano_pocket, but model.name is nano_qwen25vl"),
        ("model.tuning.language.lora.r=2", "was it trained with another rank?"),
        ("model.tuning.language.lora.alpha=16", '"init": "default"}} there, {"language": {"alpha": 16.0'),
        ("model.tuning.language.mode=frozen", "there, {} here"),
        ("model.tuning.projector.mode=frozen", "not known ['projector."),
    ],
)
def test_checkpoint_of_another_model_is_refused(
    nano: Nano, weights: Path, tmp_path: Path, refused: Told, other: str, message: str
) -> None:
    said = refused(nano.here("eval", tmp_path / "other", other, f"model.checkpoint={weights}"))
    assert str(weights) in said
    assert message in said


def test_prepared_images_are_only_read(nano: Nano, prepared_tiny: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in prepared_tiny.rglob("*") if file.is_file()}
    assert nano.here("train", tmp_path / "run", "train.max_steps=1") == 0
    assert {file: file.read_bytes() for file in prepared_tiny.rglob("*") if file.is_file()} == before
    with PIL.Image.open(next((prepared_tiny / "media").iterdir())) as image:
        # A grey image has one channel.
        assert image.mode in ("L", "RGB")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without prepared folders."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("recipe", "hub_id", "gated", "parameters"),
    [
        ("llama32_11b_fetal_gauge_lora", "meta-llama/Llama-3.2-11B-Vision-Instruct", True, "10.67 billion"),
        pytest.param(
            "qwen25vl_7b_fetal_gauge_lora", "Qwen/Qwen2.5-VL-7B-Instruct", False, "8.29 billion", marks=pytest.mark.soak
        ),
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
    many = ["--set", "data.root=none", "train.batch_size=220", "train.micro_batch_size=220"]
    assert main(["validate", "nano_busi_lora", "--devices", "1xRTX-1GB", *many]) == 1
    assert "RTX has 1 GB. Set train.precision=bf16-mixed" in capsys.readouterr().out


def test_devices_that_cannot_be_read(refused: Told) -> None:
    assert "expected NxNAME-SIZEGB" in refused(main(["validate", "nano_busi_lora", "--devices", "many"]))
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


@pytest.mark.parametrize("word", ["on", "off", "keep"])
def test_words_that_yaml_reads_as_true_and_false_are_kept(word: str) -> None:
    assert read_recipe("nano_busi_lora", [f"model.thinking={word}"]).model.thinking == word


@pytest.mark.parametrize(
    ("training", "tokens", "said"),
    [
        (True, 1024, "training would teach to close a thought"),
        (False, 16, "cut within their thoughts"),
        (False, 1024, ""),
    ],
)
def test_thoughts_are_neither_trained_away_nor_cut(prepared_tiny: Path, training: bool, tokens: int, said: str) -> None:
    settings = [f"data.root={prepared_tiny}", "model.thinking=on", f"eval.max_new_tokens={tokens}"]
    recipe = read_recipe("nano_busi_lora", [*settings, "eval.readings=[generation]", "eval.parser=robust"])
    with pytest.raises(ValueError, match=said) if said else nullcontext():
        open_data(recipe, training=training)
