"""Tests that a recipe divides its steps by count or by tokens, never by both."""

from pathlib import Path

import pytest

from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml
from medtune.trainer.seen import differences

STAGES = (
    "train.max_steps=null", "train.epochs=null",
    "train.stages=[{name: one, max_steps: 2}, {name: two, max_steps: 2, micro_batch_size: 3}]",
)  # fmt: skip


def test_a_budget_takes_the_place_of_a_number_below_it() -> None:
    recipe = read_recipe("nano_busi_lora", ["train.micro_batch_tokens=300"])
    assert recipe.stages[0].micro_batch_tokens == 300
    assert read_recipe("nano_busi_lora").stages[0].micro_batch_tokens is None


def test_what_a_run_wrote_can_be_read_again_and_changed(tmp_path: Path) -> None:
    recipe = read_recipe("nano_busi_lora", ["train.micro_batch_tokens=300"])
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe_to_yaml(recipe))
    again = read_recipe(str(file))
    assert again.train.micro_batch_tokens == 300
    assert recipe_to_yaml(again) == recipe_to_yaml(recipe)
    by_count = read_recipe(str(file), ["train.micro_batch_size=3"])
    assert (by_count.train.micro_batch_size, by_count.train.micro_batch_tokens) == (3, None)
    assert differences(recipe, by_count) == []


@pytest.mark.parametrize("block", ["train", "train.stages.0"])
def test_both_in_one_place_are_refused(block: str) -> None:
    stages = [] if block == "train" else list(STAGES)
    wanted = rf"--set: {block}\.micro_batch_size and {block}\.micro_batch_tokens are both given"
    with pytest.raises(ValueError, match=wanted):
        read_recipe("nano_busi_lora", [*stages, f"{block}.micro_batch_size=2", f"{block}.micro_batch_tokens=300"])


def test_a_file_that_gives_both_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: nano_busi_lora\ntrain: {micro_batch_size: 2, micro_batch_tokens: 300}\n")
    with pytest.raises(ValueError, match=r"mine\.yaml: train\.micro_batch_size and train\.micro_batch_tokens are both"):
        read_recipe(str(file))
    assert read_recipe(str(file), ["train.micro_batch_tokens=null"]).train.micro_batch_size == 2


def test_a_stage_that_says_its_own_takes_nothing_from_train() -> None:
    one, two = read_recipe("nano_busi_lora", [*STAGES, "train.micro_batch_tokens=300"]).stages
    assert one.micro_batch_tokens == 300
    assert (two.micro_batch_size, two.micro_batch_tokens) == (3, None)


def test_a_budget_is_at_least_one_token() -> None:
    with pytest.raises(ValueError, match=r"train\.micro_batch_tokens is 0; it must be at least 1"):
        read_recipe("nano_busi_lora", ["train.micro_batch_tokens=0"])
