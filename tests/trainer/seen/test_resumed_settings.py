"""What decides the result is compared when a run goes on; what decides how it is computed and shown may change."""

import shutil
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.seen import asked_hash, differences
from tests.trainer.conftest import QUICK, Nano, Told, json_of

DECIDES = (
    "train.seed=1", "train.max_steps=5", "train.batch_size=3", "train.weight_decay=0.5", "train.text_only_share=0.5",
    "model.answer_format=letter", "model.tuning.language.lora.r=2", "data.balance=0.5", "eval.split=val",
    "eval.questions=3", "eval.max_new_tokens=5", "eval.conditions=[image]", "eval.val_questions=3",
    "train.loss.name=label_smoothing", "model.adapter=elsewhere",
)  # fmt: skip
DOES_NOT = (
    "data.workers=3", "data.cache=false", "data.root=elsewhere", "log.wandb=offline", "log.project=other",
    "log.every_steps=7", "log.images=never", "train.gradient_checkpointing=true", "train.devices=2",
    "train.strategy=ddp", "train.micro_batch_size=3", "train.save_every_steps=2", "eval.batch_size=2",
    "eval.batch_tokens=99",
)  # fmt: skip


@pytest.mark.parametrize("setting", [*DECIDES, *DOES_NOT])
def test_a_setting_is_compared_if_it_decides_the_result(setting: str) -> None:
    before, now = (read_recipe("nano_busi_lora", [*QUICK, *changed]) for changed in ((), (setting,)))
    changed = differences(before, now)
    assert bool(changed) == (setting in DECIDES)
    assert all(each.startswith(setting.partition("=")[0]) for each in changed)


def test_a_loss_enters_the_hash_of_what_was_asked_and_the_usual_one_does_not() -> None:
    usual, again, other = (
        asked_hash(read_recipe("nano_busi_lora", [*QUICK, *changed]))
        for changed in ((), ("train.loss.name=cross_entropy",), ("train.loss.name=label_smoothing",))
    )
    assert usual == again != other


def test_the_limit_is_compared_and_workers_logs_and_the_place_of_the_data_may_change(
    nano: Nano, prepared_tiny: Path, tmp_path: Path, refused: Told
) -> None:
    out, moved = tmp_path / "run", tmp_path / "moved"
    short = ("train.max_steps=2", "eval.every_steps=1")
    assert nano.here("train", out, *short, extra=("--limit", "20")) == 0
    assert json_of(out / "environment.json")["limit"] == 20
    for limit, said in ((("--limit", "10"), "10"), ((), "not given")):
        told = refused(nano.here("train", out, *short, extra=("--resume", *limit)))
        assert f"--limit is 20 there and {said} here" in told
    other = nano.here("train", out, *short, "train.loss.name=label_smoothing", extra=("--resume", "--limit", "20"))
    assert "train.loss.name is cross_entropy there and label_smoothing here" in refused(other)
    shutil.copytree(prepared_tiny, moved)
    free = ("data.workers=1", "log.every_steps=2", "log.project=other", f"data.root={moved}")
    assert nano.here("train", out, *short, *free, extra=("--resume", "--limit", "20")) == 0
    assert RunFolder(out).read_recipe().data.workers == 1


def test_a_run_without_a_limit_refuses_one(nano: Nano, tmp_path: Path, refused: Told) -> None:
    out = tmp_path / "run"
    assert nano.here("train", out, "train.max_steps=1") == 0
    told = refused(main([*nano.arguments("train", out, "train.max_steps=1"), "--resume", "--limit", "5"]))
    assert "--limit is not given there and 5 here" in told
