"""Tests of reading recipes: defaults, extends, overrides, and messages about typing mistakes."""

from pathlib import Path

import pytest

from medtune.trainer.recipe.build import origins
from medtune.trainer.recipe.read import read_layers, read_recipe, recipe_to_yaml, recipe_tree

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


def test_extends_chains_of_any_depth_whose_relative_names_start_at_the_file_that_has_them(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    _write(tmp_path, "parent.yaml", PLAIN)
    _write(tmp_path / "a", "child.yaml", "extends: ../parent.yaml\ntrain: {seed: 5, batch_size: 2}\n")
    _write(tmp_path / "b", "grandchild.yaml", "extends: ../a/child.yaml\ntrain: {batch_size: 4}\n")
    last = _write(tmp_path / "b", "last.yaml", "extends: grandchild.yaml\n")
    recipe = read_recipe(last)
    assert (recipe.train.max_steps, recipe.train.seed, recipe.train.batch_size) == (7, 5, 4)
    said = origins(read_layers(last, ["train.precision=32-true"]), recipe_tree(recipe))
    names = {key: Path(origin).name for key, origin in said.items() if key.startswith("train.")}
    assert names["train.max_steps"] == "parent.yaml"
    assert names["train.seed"] == "child.yaml"
    assert names["train.batch_size"] == "grandchild.yaml"
    assert (names["train.precision"], names["train.devices"]) == ("--set", "default")
    _write(tmp_path / "a", "child.yaml", "extends: ../parent.yaml\ntrain: {sed: 5}\n")
    with pytest.raises(ValueError, match=r"child\.yaml: no key 'train.sed'"):
        read_recipe(last)


def test_recipes_that_extend_each_other_are_refused_with_the_chain(tmp_path: Path) -> None:
    for name, parent in (("one", "two"), ("two", "three"), ("three", "one")):
        _write(tmp_path, f"{name}.yaml", f"extends: {parent}.yaml\n")
    circle = r"in a circle: \S*one\.yaml extends \S*two\.yaml extends \S*three\.yaml extends \S*one\.yaml"
    with pytest.raises(ValueError, match=circle):
        read_recipe(str(tmp_path / "one.yaml"))


def test_a_recipe_that_is_extended_and_not_there_is_named_with_the_file_that_names_it(tmp_path: Path) -> None:
    child = _write(tmp_path, "child.yaml", "extends: nowhere.yaml\n")
    with pytest.raises(FileNotFoundError, match=r"child\.yaml: extends 'nowhere\.yaml': no recipe file"):
        read_recipe(child)
    child = _write(tmp_path, "child.yaml", "extends: pocket_busi_lorra\n")
    with pytest.raises(ValueError, match=r"child\.yaml: extends 'pocket_busi_lorra'.*pocket_busi_lora"):
        read_recipe(child)
    child = _write(tmp_path, "child.yaml", "extends: [a, b]\n")
    with pytest.raises(ValueError, match=r"takes the name or the file of one recipe"):
        read_recipe(child)


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
