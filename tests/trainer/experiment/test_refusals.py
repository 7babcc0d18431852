"""Tests that the error message for wrong input names the file, the field and what to do."""

import errno
import json
import os
import shutil
from pathlib import Path

import PIL.Image
import pytest
import torch

from medtune.trainer.commands.cli import main
from tests.examples.fetal_gauge import write_fetal_gauge
from tests.trainer.conftest import Nano


def test_unknown_recipe_key_offers_the_nearest(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("run", tmp_path / "run", "train.max_stepz=3") == 1
    assert "no key 'train.max_stepz'. Did you mean 'max_steps'?" in capsys.readouterr().err


def test_unknown_recipe_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nano_bussi_lora"]) == 1
    assert "Did you mean 'nano_busi_lora'?" in capsys.readouterr().err


def test_missing_folder(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("run", tmp_path / "run", f"data.root={tmp_path}/nowhere") == 1
    message = capsys.readouterr().err
    assert "nowhere" in message
    assert "medtune prepare" in message
    assert not (tmp_path / "run").exists()


def test_folder_of_another_benchmark(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("run", tmp_path / "run", "data.benchmark=vqa_rad") == 1
    assert "was prepared for the benchmark 'busi'" in capsys.readouterr().err


def test_empty_split_is_refused_and_test_only_data_can_be_evaluated(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, prepared = tmp_path / "raw", tmp_path / "prepared"
    write_fetal_gauge(raw)
    rows = raw / "questions.jsonl"
    rows.write_text(rows.read_text().replace('"train"', '"test"').replace('"val"', '"test"'))
    assert main(["prepare", "fetal_gauge", "--source", "table", "--from", str(raw), "--out", str(prepared)]) == 0
    settings = (f"data.root={prepared}", "data.benchmark=fetal_gauge")
    assert nano.here("run", tmp_path / "run", *settings) == 1
    assert "the split 'train' is empty" in capsys.readouterr().err
    assert nano.here("eval", tmp_path / "eval", *settings, extra=("--limit", "6")) == 0


def test_truncated_image_is_named(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "prepared"
    shutil.copytree(prepared_tiny, broken)
    image = sorted((broken / "media").iterdir())[0]
    image.write_bytes(image.read_bytes()[:60])
    assert nano.here("run", tmp_path / "run", f"data.root={broken}") == 1
    assert image.name in capsys.readouterr().err


def test_nan_loss_stops_and_names_the_batch(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medtune.models.towers.image_tower import ImageTransform

    real = ImageTransform.__call__

    def poisoned(self: ImageTransform, image: object) -> torch.Tensor:
        return real(self, image) * torch.nan  # type: ignore[arg-type]

    monkeypatch.setattr(ImageTransform, "__call__", poisoned)
    assert nano.here("train", tmp_path / "run") == 1
    message = capsys.readouterr().err
    assert "the loss is nan at step 1" in message
    assert "diagnosis-" in message


def test_group_without_gradient_stops_the_run(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medtune.models.vlm import VisionLanguageModel

    def detached(self: VisionLanguageModel, pixels_MCHW: torch.Tensor) -> torch.Tensor:
        tokens_MNE: torch.Tensor = self.projector(self.vision(pixels_MCHW))
        return tokens_MNE.detach()

    monkeypatch.setattr(VisionLanguageModel, "encode", detached)
    assert nano.here("train", tmp_path / "run") == 1
    assert "the part 'projector' (full) has no gradient" in capsys.readouterr().err


def test_lora_targets_that_fit_nothing(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("train", tmp_path / "run", "model.tuning.language.lora.targets=qkv") == 1
    message = capsys.readouterr().err
    assert "fits no module of the part" in message
    assert "q_proj" in message


def test_all_frozen_is_refused(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frozen = ("model.tuning.projector.mode=frozen", "model.tuning.language.mode=frozen")
    assert nano.here("train", tmp_path / "run", *frozen) == 1
    assert "every part is frozen" in capsys.readouterr().err


def test_full_run_folder_is_not_written_over(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    assert nano.here("run", tmp_path / "run") == 1
    assert "is not empty" in capsys.readouterr().err


def test_full_disk_while_answering(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "write", _no_space)
    assert nano.here("eval", tmp_path / "run") == 1
    message = capsys.readouterr().err
    assert "disk is full" in message
    assert "--resume" in message


def test_full_disk_while_saving_weights(
    nano: Nano, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medtune.models.weights import checkpoint

    monkeypatch.setattr(checkpoint, "save_file", _no_space)
    assert nano.here("train", tmp_path / "run") == 1
    assert "disk is full" in capsys.readouterr().err
    assert not list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))


def _no_space(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_checkpoint_of_another_rank_is_refused(nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nano.here("train", tmp_path / "run", "train.max_steps=1") == 0
    weights = tmp_path / "run" / "checkpoints" / "last.safetensors"
    other = ("model.tuning.language.lora.r=2", f"model.checkpoint={weights}")
    assert nano.here("eval", tmp_path / "other", *other) == 1
    assert "was it trained with another rank?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("model.name=nano_qwen25vl", "trained weights of the model nano_pocket, but model.name is nano_qwen25vl"),
        ("model.tuning.language.lora.alpha=16", '"init": "default"}} there, {"language": {"alpha": 16.0'),
        ("model.tuning.language.mode=frozen", "there, {} here"),
        ("model.tuning.projector.mode=frozen", "not known ['projector."),
    ],
)
def test_checkpoint_of_another_model_is_refused(
    nano: Nano, tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str, message: str
) -> None:
    assert nano.here("train", tmp_path / "run", "train.max_steps=1") == 0
    weights = tmp_path / "run" / "checkpoints" / "last.safetensors"
    assert nano.here("eval", tmp_path / "other", other, f"model.checkpoint={weights}") == 1
    said = capsys.readouterr().err
    assert str(weights) in said
    assert message in said


def test_score_and_eval_agree_to_the_last_digit(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    assert nano.here("eval", run) == 0
    copy.mkdir()
    shutil.copy(run / "zero_shot" / "predictions.jsonl", copy / "predictions.jsonl")
    arguments = ["score", "busi", "--predictions", str(copy / "predictions.jsonl"), "--questions", str(prepared_tiny)]
    assert main(arguments) == 0
    assert (copy / "parsed.jsonl").read_bytes() == (run / "zero_shot" / "parsed.jsonl").read_bytes()
    scored, evaluated = (json.loads((folder / "scores.json").read_text()) for folder in (copy, run / "zero_shot"))
    # Only a file that was given has rows to be counted.
    assert scored.pop("file_rows")["unanswered"] == 0
    assert scored == evaluated


def test_prepared_images_are_only_read(nano: Nano, prepared_tiny: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in prepared_tiny.rglob("*") if file.is_file()}
    assert nano.here("train", tmp_path / "run", "train.max_steps=1") == 0
    assert {file: file.read_bytes() for file in prepared_tiny.rglob("*") if file.is_file()} == before
    with PIL.Image.open(next((prepared_tiny / "media").iterdir())) as image:
        assert image.mode == "RGB"
