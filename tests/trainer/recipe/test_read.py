"""Tests of reading recipes: defaults, one level of extends, overrides, and messages about typing mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml

PLAIN = """
model: {name: nano_pocket}
data: {benchmark: busi, root: somewhere}
train: {max_steps: 7}
"""


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_defaults_and_overrides(tmp_path: Path) -> None:
    file = _write(tmp_path, "a.yaml", PLAIN)
    recipe = read_recipe(file, ["train.seed=3", "model.tuning.language.lora.r=4", "eval.conditions=[image]"])
    assert (recipe.train.max_steps, recipe.train.seed) == (7, 3)
    assert recipe.model.tuning.language.lora.r == 4
    assert recipe.model.tuning.projector.mode == "full"
    assert recipe.eval.conditions == ("image",)
    assert recipe.data.root == Path("somewhere")
    assert read_recipe(_write(tmp_path, "b.yaml", recipe_to_yaml(recipe))) == recipe


def test_extends_one_level_and_no_more(tmp_path: Path) -> None:
    parent = _write(tmp_path, "parent.yaml", PLAIN)
    child = _write(tmp_path, "child.yaml", f"extends: {parent}\ntrain: {{seed: 5}}\n")
    recipe = read_recipe(child)
    assert (recipe.train.max_steps, recipe.train.seed) == (7, 5)
    grandchild = _write(tmp_path, "grandchild.yaml", f"extends: {child}\n")
    with pytest.raises(ValueError, match="one level is the limit"):
        read_recipe(grandchild)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.max_stepz=3", "no key 'train.max_stepz'. Did you mean 'max_steps'\\?"),
        ("modle.name=x", "Did you mean 'model'\\?"),
        ("model.tuning.language.lora.rank=4", "no key 'model.tuning.language.lora.rank'"),
        ("train.max_steps=many", "train.max_steps is .many.; it must be a whole number"),
        ("train.max_steps=2.5", "train.max_steps is 2.5; it must be a whole number"),
        ("model.answer_format=letters", "one of text, letter, text_letter"),
        ("train=3", "train is 3; it must be a block of keys"),
        ("train.max_steps=0", "train.max_steps is 0; it must be at least 1"),
        ("train.warmup_ratio=1.5", "train.warmup_ratio is 1.5"),
        ("eval.readings=[]", "eval.readings is empty"),
        ("eval.conditions=[text_only]", "it must hold 'image'"),
        ("model.tuning.projector.lr=0", "model.tuning.projector.lr is 0"),
        ("max_steps", "expected KEY=VALUE"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_recipe(_write(tmp_path, "a.yaml", PLAIN), [override])


def test_missing_key_and_broken_yaml(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_steps"):
        read_recipe(_write(tmp_path, "a.yaml", PLAIN.replace("max_steps: 7", "seed: 1")))
    with pytest.raises(ValueError, match=r"b\.yaml: not YAML"):
        read_recipe(_write(tmp_path, "b.yaml", "model: [unclosed"))
    with pytest.raises(ValueError, match="a recipe is a mapping"):
        read_recipe(_write(tmp_path, "c.yaml", "just words"))
    with pytest.raises(FileNotFoundError, match=r"no recipe file .*d\.yaml"):
        read_recipe(str(tmp_path / "d.yaml"))
