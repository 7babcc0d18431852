"""Takes a reduced Qwen2.5-VL with the vendor's own files through all commands that a user runs on a checkpoint."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForImageTextToText, AutoProcessor

from medtune.trainer.commands.cli import main
from tests.forked_readers import forget_medtune
from tests.ranks import medtune_forked, run_ranks
from tests.trainer.checkpoints.qwen25vl import write_reduced
from tests.trainer.conftest import json_of

RECIPE = "qwen25vl_7b_fetal_gauge_lora"


def medtune(*arguments: str) -> str:
    """Runs a command in a process of its own and returns what it printed."""
    return medtune_forked(*arguments, environment={"HF_HUB_OFFLINE": "1"})


def plain_logits(rank: int, world_size: int, *read: tuple[Path, Path | None]) -> list[list[float]]:
    """Returns logits that plain transformers, and peft, compute in a process without medtune, for each base."""
    forget_medtune()
    told = []
    for base, adapter in read:
        model: Any = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
        if adapter is not None:
            model = PeftModel.from_pretrained(model, adapter)
        ids = AutoProcessor.from_pretrained(base).tokenizer("Which plane does the image show?", return_tensors="pt")
        with torch.no_grad():
            logits_V = model.eval()(**ids).logits[0, -1].float()
        told.append(logits_V[:2000].tolist())
    assert "medtune" not in sys.modules
    return told


@pytest.mark.slow
@pytest.mark.usefixtures("forked_readers")
def test_a_folder_as_the_vendor_publishes_it_goes_through_every_command(
    shared_real: Path, prepared_tiny: Path, tmp_path: Path
) -> None:
    base = write_reduced(shared_real / "qwen25vl_7b", tmp_path / "base")
    data = ["data.benchmark=busi", f"data.root={prepared_tiny}", "data.workers=0", "log.wandb=disabled",
            "train.max_steps=4", "train.batch_size=4", "train.micro_batch_size=2", "train.gradient_checkpointing=false",
            "eval.every_steps=4", "eval.val_questions=2", "eval.max_new_tokens=4", "eval.batch_tokens=4096",
            "model.image_max_pixels=50176", "train.strategy=auto", "train.devices=1", "eval.conditions=[image]",
            "model.dtype=float32", "train.precision=32-true"]  # fmt: skip
    recipe = [RECIPE, "--set", f"model.weights={base}", *data]
    learnt = ["model.tuning.language.lr=1e-2", "model.tuning.projector.lr=1e-3"]
    assert "labels" in medtune("validate", *recipe, *learnt)
    assert "FAIL" not in medtune("doctor", *recipe, *learnt).upper().replace("0 FAIL", "")
    run = tmp_path / "run"
    medtune("run", *recipe, *learnt, "--out", str(run))
    final = json_of(run / "results.json")["phases"]["final"]
    merged, adapter = tmp_path / "merged", tmp_path / "adapter"
    # In this process, where the readers of the proof are forked.
    assert main(["export", str(run), "--out", str(merged)]) == 0
    assert main(["export", str(run), "--adapter", "--out", str(adapter), "--no-proof"]) == 0
    ((untuned, of_merged, of_adapter),) = run_ranks(
        1, plain_logits, (base, None), (merged, None), (base, adapter), environment=lambda _: {}
    )
    moved = max(abs(a - b) for a, b in zip(untuned, of_adapter, strict=True))
    apart = max(abs(a - b) for a, b in zip(of_merged, of_adapter, strict=True))
    assert moved > 0.05, "the training changed nothing, so that this test would see nothing"
    # The merged weights are stored in bfloat16, which has 8 significant bits.
    assert apart < moved / 4
    medtune("eval", RECIPE, "--set", f"model.weights={merged}", *data, "--out", str(tmp_path / "of_merged"))
    of_export = json_of(tmp_path / "of_merged" / "results.json")["phases"]["zero_shot"]
    assert of_export["overall"]["value"] == pytest.approx(final["overall"]["value"], abs=0.15)
