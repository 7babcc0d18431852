"""Tests that ddp trains models of which some parameters never get a gradient, as one device does."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from medtune.trainer.commands.cli import main
from tests.ranks import run_ranks

FULL = ("model.tuning.vision.mode=full", "model.tuning.vision.lr=1e-3", "model.tuning.projector.mode=full")


def _train(rank: int, world_size: int, name: str, root: str, out: str) -> int:
    settings = (
        f"model.name={name}", f"data.root={root}", f"train.devices={world_size}", "train.max_steps=3",
        "train.batch_size=2", "train.micro_batch_size=1", "eval.every_steps=3", "eval.val_questions=2",
        "eval.max_new_tokens=2", "log.wandb=disabled", *FULL,
    )  # fmt: skip
    return main(["train", "nano_busi_lora", "--out", out, "--set", *settings])


@pytest.mark.parametrize(
    "name",
    [pytest.param("nano_llava", marks=pytest.mark.slow), pytest.param("nano_llava_onevision", marks=pytest.mark.soak)],
)
def test_ddp_trains_a_tower_whose_last_layer_is_never_read(
    name: str, prepared_tiny: Path, tmp_path: Path, curve: Callable[[Path, str], list[float]]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_ranks(1, _train, name, str(prepared_tiny), str(one)) == [0]
    assert run_ranks(2, _train, name, str(prepared_tiny), str(two)) == [0, 0]
    assert len(curve(two, "train/loss")) == 3
    assert curve(two, "train/loss") == pytest.approx(curve(one, "train/loss"), abs=1e-5)
    mine, theirs = (load_file(run / "checkpoints" / "last.safetensors") for run in (two, one))
    assert mine.keys() == theirs.keys()
    assert max(float((mine[each] - theirs[each]).abs().max()) for each in mine) < 1e-5
