"""Runs a model of an encoder of timm, a projector and a language model through the whole experiment."""

from pathlib import Path

import pytest

from medtune.models.weights.checkpoint import read_about
from medtune.trainer.commands.cli import main
from tests.models.parts.test_parts import CONVNEXT, VIT, Kind, write_encoder
from tests.models.weights.test_own_code import write_language
from tests.trainer.conftest import Capture, Told, json_of

QUICK = ("log.wandb=disabled", "train.max_steps=2", "train.batch_size=2", "eval.conditions=[image,text_only]",
         "eval.max_new_tokens=4", "eval.val_questions=2")  # fmt: skip


def _settings(folder: Path, root: Path, kind: Kind, *more: str) -> list[str]:
    vision = write_encoder(folder / "encoder", kind)
    language = write_language(folder / "language", "qwen2")
    return ["--set", f"data.root={root}", "model.name=parts", f"model.vision={vision}", "model.projector=perceiver",
            f"model.language={language}", *QUICK, *more]  # fmt: skip


def test_images_are_learnt_in_full_and_read_back(prepared_tiny: Path, tmp_path: Path, shown: Told) -> None:
    settings = _settings(tmp_path, prepared_tiny, CONVNEXT, "model.tuning.vision.mode=full")
    assert "timm:local-dir" in shown(main(["validate", "nano_busi_lora", *settings]))
    assert main(["run", "nano_busi_lora", "--out", str(tmp_path / "run"), *settings]) == 0
    results = json_of(tmp_path / "run" / "results.json")
    assert results["phases"]["final"]["overall"]["n"] > 0
    best = tmp_path / "run" / "checkpoints" / "best.safetensors"
    assert read_about(best)["model"] == "parts"
    assert main(["eval", "nano_busi_lora", "--out", str(tmp_path / "again"), *settings,
                 f"model.checkpoint={best}"]) == 0  # fmt: skip
    again = json_of(tmp_path / "again" / "results.json")
    assert again["phases"]["final"]["overall"] == results["phases"]["final"]["overall"]


@pytest.mark.slow
def test_scans_are_learnt_as_slices(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    untold = _settings(tmp_path, prepared_ct, VIT)
    assert main(["run", "nano_ct_lora", "--out", str(tmp_path / "refused"), "--limit", "2", *untold]) == 1
    assert "model.volumes_as" in capsys.readouterr().err
    settings = [*untold, "model.volumes_as=slices", "model.video_frames=3"]
    assert main(["run", "nano_ct_lora", "--out", str(tmp_path / "run"), "--limit", "4", *settings]) == 0
    results = json_of(tmp_path / "run" / "results.json")
    assert results["model"] == "parts"


@pytest.mark.slow
@pytest.mark.usefixtures("forked_readers")
def test_a_model_of_text_alone_learns_and_is_asked_blind(prepared_tiny: Path, tmp_path: Path, shown: Told) -> None:
    language = write_language(tmp_path / "language", "qwen2")
    settings = ["--set", f"data.root={prepared_tiny}", "model.name=parts", f"model.language={language}", *QUICK,
                "model.vision=none"]  # fmt: skip
    assert "nothing is shown: a blind run" in shown(main(["validate", "nano_busi_lora", *settings]))
    run = tmp_path / "run"
    assert main(["run", "nano_busi_lora", "--limit", "6", "--out", str(run), *settings]) == 0
    results = json_of(run / "results.json")
    final = results["phases"]["final"]
    assert final["overall"]["n"] > 0
    assert results["protocol"]["used"]["shown"] == "text_only"
    assert "blind" in (run / "weights.json").read_text("utf-8")
    out = tmp_path / "export"
    told = shown(main(["export", str(run), "--out", str(out)]))
    assert json_of(out / "proof.json")["tells_trained_from_untrained"]
    said = told.partition("load it with: --set ")[2].split()
    assert said == [
        "model.name=parts", f"model.weights={out}", "model.vision=none", f"model.language={out / 'language'}"
    ]  # fmt: skip
    again = ["eval", "nano_busi_lora", "--limit", "6", "--out", str(tmp_path / "again"), *settings[:2], *QUICK, *said]
    assert main(again) == 0
    (read,) = json_of(tmp_path / "again" / "results.json")["phases"].values()
    assert read["overall"] == final["overall"]
