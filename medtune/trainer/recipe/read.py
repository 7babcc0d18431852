"""Reads a recipe: YAML files, one level of `extends:`, the values of `--set`, then the typed schema."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from medtune.data import catalog
from medtune.data.plugins import named_folders
from medtune.models.tuning.plan import Tuning
from medtune.trainer.recipe.build import build
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.layers import COMMAND_LINE, Layer, merge, merged, override_layer, read_layer
from medtune.trainer.recipe.plugin_folders import read_with_plugins, use_plugins
from medtune.trainer.recipe.renamed_keys import old_names, with_new_names
from medtune.trainer.recipe.schema import Recipe

STAGE_KEYS = ("batch_size", "micro_batch_size", "warmup_ratio")
"""The keys that a stage takes from `train` where it does not say them itself."""
Tree = dict[str, Any]
_T = TypeVar("_T")


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe that medtune or a plugin brings, or the file that `name` is the path of.

    Raises:
        ValueError: There is no such recipe; the message offers the nearest name.
        FileNotFoundError: `name` looks like a path, and nothing is there.
    """
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise FileNotFoundError(f"no recipe file {name}")
        return Path(name)
    return catalog.find(catalog.RECIPES, name).file


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Returns the recipe with `overrides` ("train.max_steps=10") applied; says on stderr which keys have a new name.

    The plugin folders that the recipe names are taken into use.

    Raises:
        ValueError: Broken YAML, an unknown key (the nearest one is offered) or a value of the wrong type.
        FileNotFoundError: There is no such file, or a plugin folder is missing.
    """
    path = find_recipe(name)
    own = read_with_plugins(path)
    files = [Layer(own.origin, {key: value for key, value in own.tree.items() if key != "extends"})]
    if (parent := own.tree.get("extends")) is not None:
        below = read_with_plugins(find_recipe(str(parent)))
        if "extends" in below.tree:
            raise ValueError(f"{path}: extends {parent!r}, which itself extends another recipe; one level is the limit")
        files.insert(0, below)
    replaced = [override_layer(override) for override in overrides]
    if any("plugins" in layer.tree for layer in replaced):
        raise ValueError(f"{COMMAND_LINE} plugins: name plugin folders with --plugins FOLDER, or in the recipe's file")
    layers = _renamed(files, replaced)
    tree = merge(layers)
    folders = dict.fromkeys((*use_plugins(tree, path), *named_folders()))
    return _recipe({**tree, "plugins": [str(each) for each in folders]}, layers)


def recipe_from_tree(tree: Mapping[str, Any], *, where: str) -> Recipe:
    """Returns the typed recipe.

    Raises:
        ValueError: An unknown key, a missing one, or a value of the wrong type.
    """
    return _recipe(tree, [Layer(where, tree)])


def read_settings(kind: type[_T], file: Path | None, overrides: Sequence[str]) -> _T:
    """Returns settings of another kind than a recipe, from a YAML file (or from nothing) with `overrides` applied.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As `recipe_from_tree`.
    """
    if file is not None and not file.is_file():
        raise FileNotFoundError(f"no file {file}")
    below = Layer(COMMAND_LINE, {}) if file is None else read_layer(file)
    layers = [below, *map(override_layer, overrides)]
    return build(kind, merge(layers), layers)


def _renamed(files: Sequence[Layer], overrides: Sequence[Layer]) -> list[Layer]:
    """Returns all layers under the new names of their keys, and says on stderr which had an old one."""
    # The overrides are looked at together, because two of them may give one key under both names.
    for layer in (*files, Layer(COMMAND_LINE, merge(overrides))):
        with_new_names(layer.tree, where=layer.origin)
        for message in old_names(layer.tree):
            print(f"{layer.origin}: {message}", file=sys.stderr)
    return [Layer(each.origin, with_new_names(each.tree, where=each.origin)) for each in (*files, *overrides)]


def _recipe(tree: Mapping[str, Any], layers: Sequence[Layer]) -> Recipe:
    recipe = build(Recipe, tree, layers)
    if recipe.train.stages:
        # Only now are the blocks known to be sound, so that the stages can take from them what they leave out.
        recipe = build(Recipe, _with_whole_stages(tree), layers)
    check_recipe(recipe)
    return recipe


def _with_whole_stages(tree: Mapping[str, Any]) -> Tree:
    """Returns the tree whose stages say all that they take from the blocks `train` and `model.tuning`."""
    train = tree["train"]
    shared = {key: train[key] for key in STAGE_KEYS if key in train}
    tuning = merged(dataclasses.asdict(Tuning()), tree["model"].get("tuning", {}))
    stages = [{**shared, **stage, "tuning": merged(tuning, stage.get("tuning", {}))} for stage in train["stages"]]
    return {**tree, "train": {**train, "stages": stages}}


def recipe_to_yaml(recipe: Recipe) -> str:
    """Returns the resolved recipe as YAML that `read_recipe` takes."""
    return yaml.safe_dump(recipe_tree(recipe), sort_keys=False)


def recipe_tree(recipe: Recipe) -> Tree:
    """Returns the resolved recipe as what YAML and JSON hold."""
    tree: Tree = _plain_tree(dataclasses.asdict(recipe))
    return tree if recipe.plugins else {key: value for key, value in tree.items() if key != "plugins"}


def _plain_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_tree(child) for key, child in value.items()}
    if isinstance(value, tuple | list):
        return [_plain_tree(child) for child in value]
    return str(value) if isinstance(value, Path) else value
