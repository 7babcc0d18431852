"""Tests that old names of keys are accepted, with one line on stderr that gives the new name."""

from __future__ import annotations

from pathlib import Path

import pytest

from medtune.trainer.recipe.fields import recipe_fields
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.renamed_keys import RENAMED

Capture = pytest.CaptureFixture[str]
PLAIN = """
model: {name: nano_pocket}
data: {benchmark: busi, root: somewhere}
train: {max_steps: 7}
"""


def _write(folder: Path, text: str, name: str = "a.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("key", RENAMED)
def test_every_new_name_is_a_field_and_no_old_one_is(key: tuple[str, str, str, str]) -> None:
    block, old, new, _ = key
    names = {field.name for field in recipe_fields()}
    assert f"{block}.{new}".replace("*", "N") in names
    assert f"{block}.{old}".replace("*", "N") not in names


def test_an_old_key_of_a_file_counts_and_is_explained(tmp_path: Path, capsys: Capture) -> None:
    file = _write(tmp_path, PLAIN.replace("max_steps: 7", "max_steps: 7, batch_groups: 4, micro_batch_groups: 2"))
    recipe = read_recipe(file)
    assert (recipe.train.batch_size, recipe.train.micro_batch_size) == (4, 2)
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: train.batch_groups is now called train.batch_size (it counts media groups); please rename it",
        f"{file}: train.micro_batch_groups is now called train.micro_batch_size (it counts media groups); please "
        "rename it",
    ]


def test_an_old_key_of_a_stage_counts(tmp_path: Path, capsys: Capture) -> None:
    stages = "stages: [{name: a, max_steps: 1}, {name: b, max_steps: 2, batch_groups: 4}]"
    recipe = read_recipe(_write(tmp_path, PLAIN.replace("max_steps: 7", stages)), ["train.stages.0.batch_groups=2"])
    assert [stage.batch_size for stage in recipe.stages] == [2, 4]
    said = capsys.readouterr().err
    assert "train.stages.1.batch_groups is now called train.stages.1.batch_size" in said
    assert "--set: train.stages.0.batch_groups is now called train.stages.0.batch_size" in said


def test_set_goes_before_the_file_whatever_name_each_uses(tmp_path: Path, capsys: Capture) -> None:
    old = _write(tmp_path, PLAIN.replace("max_steps: 7", "max_steps: 7, batch_groups: 4"))
    assert read_recipe(old, ["train.batch_size=16"]).train.batch_size == 16
    child = _write(tmp_path, f"extends: {old}\ntrain: {{batch_size: 2}}\n", "child.yaml")
    assert read_recipe(child).train.batch_size == 2
    assert read_recipe(child, ["train.batch_groups=16", "eval.batch_groups=5"]).eval.batch_size == 5
    assert "--set: eval.batch_groups is now called eval.batch_size" in capsys.readouterr().err


def test_new_names_are_not_commented(tmp_path: Path, capsys: Capture) -> None:
    read_recipe(_write(tmp_path, PLAIN), ["train.batch_size=3"])
    assert capsys.readouterr().err == ""


def test_both_names_in_one_place_are_refused(tmp_path: Path) -> None:
    both = _write(tmp_path, PLAIN.replace("max_steps: 7", "max_steps: 7, batch_groups: 4, batch_size: 4"))
    with pytest.raises(ValueError, match=r"a\.yaml: train\.batch_groups and train\.batch_size are both given"):
        read_recipe(both)
    with pytest.raises(ValueError, match=r"--set: eval\.batch_groups and eval\.batch_size are both given"):
        read_recipe(_write(tmp_path, PLAIN), ["eval.batch_groups=4", "eval.batch_size=4"])


def test_a_wrong_value_under_an_old_name_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--set: train\.batch_size is 'x'; it must be a whole number"):
        read_recipe(_write(tmp_path, PLAIN), ["train.batch_groups=x"])
