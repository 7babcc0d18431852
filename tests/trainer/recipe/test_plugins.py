"""The plugin folders that recipes name: taken into use where the recipe is the user's own, and only then."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.data.plugins import name_folders, plugins
from medtune.trainer.recipe.read import read_recipe, recipe_to_yaml, use_plugins_of_run

RECIPE = "model: {name: pocket}\ndata: {benchmark: busi, root: x}\ntrain: {max_steps: 1}\n"


@pytest.fixture(autouse=True)
def no_plugins_left() -> Iterator[None]:
    yield
    name_folders([])


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "parent.yaml").write_text(f"# Parent.\n{RECIPE}")
    return folder


def test_the_folder_is_relative_to_the_recipe_and_its_recipes_may_be_extended(plugin: Path, tmp_path: Path) -> None:
    child = tmp_path / "child.yaml"
    child.write_text("plugins: [mine]\nextends: parent\n")
    recipe = read_recipe(str(child), ["train.max_steps=3"])
    assert recipe.plugins == (plugin,)
    assert recipe.train.max_steps == 3
    assert "parent" in catalog.names(catalog.RECIPES)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.yaml").write_text(recipe_to_yaml(recipe))
    name_folders([])
    assert "parent" not in catalog.names(catalog.RECIPES)
    for read in (
        lambda: read_recipe(str(tmp_path / "run" / "recipe.yaml")),
        lambda: use_plugins_of_run(tmp_path / "run"),
    ):
        with pytest.raises(ValueError, match=r"recipe\.yaml, plugins: it asks for code in the folder .*--plugins /"):
            read()
    name_folders([plugin])
    assert read_recipe(str(tmp_path / "run" / "recipe.yaml")) == recipe
    moved = plugin.rename(tmp_path / "run" / "mine")
    name_folders([moved])
    assert read_recipe(str(tmp_path / "run" / "recipe.yaml")).plugins == (moved,)


@pytest.mark.parametrize(
    ("name", "beside"),
    [("recipe.yaml", None), ("r.yaml", "config.json"), ("r.yaml", "adapter_config.json"), ("r.yaml", "recipe.yaml")],
)
def test_a_recipe_of_a_folder_that_is_only_read_brings_no_code(
    plugin: Path, tmp_path: Path, name: str, beside: str | None
) -> None:
    (plugin / "models").mkdir()
    (plugin / "models" / "evil.py").write_text("raise SystemExit(7)\n")
    (tmp_path / name).write_text(f"plugins: [mine]\n{RECIPE}")
    if beside is not None:
        (tmp_path / beside).write_text("{}")
    (tmp_path / "child").mkdir()
    (tmp_path / "child" / "recipe.yaml").write_text(f"extends: ../own.yaml\n{RECIPE}")
    (tmp_path / "own.yaml").write_text("plugins: [mine]\n")
    for asked in (tmp_path / name, tmp_path / "child" / "recipe.yaml"):
        with pytest.raises(ValueError, match=r"asks for code in the folder .*/mine \(models/evil\.py\)"):
            read_recipe(str(asked))
    assert plugins() == ()


def test_folders_of_the_command_line_are_kept_and_a_recipe_without_any_has_no_such_key(plugin: Path) -> None:
    assert "plugins" not in recipe_to_yaml(read_recipe("pocket_busi_lora"))
    name_folders([plugin])
    recipe = read_recipe("parent")
    assert recipe.plugins == (plugin,)
    assert f"plugins:\n- {plugin}\n" in recipe_to_yaml(recipe)


def test_a_list_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(f"plugins: mine\n{RECIPE}")
    with pytest.raises(ValueError, match=r"plugins is 'mine'; it must be a list of folders"):
        read_recipe(str(tmp_path / "r.yaml"))
    with pytest.raises(ValueError, match=r"^--set plugins: name plugin folders with --plugins FOLDER"):
        read_recipe("pocket_busi_lora", ["plugins=[mine]"])
