"""Reads a recipe: YAML, `extends:` one level deep, dotted overrides, then the typed schema."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from medtune.data import catalog
from medtune.data.plugins import add_folders, named_folders
from medtune.models.tuning.plan import Tuning
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import Recipe

STAGE_KEYS = ("batch_size", "micro_batch_size", "warmup_ratio")
"""What a stage takes from `train` where it does not say it itself."""
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
    """Returns the recipe with `overrides` ("train.max_steps=10") applied; its plugin folders are taken into use.

    Raises:
        ValueError: Broken YAML, an unknown key (the nearest one is offered) or a value of the wrong type.
        FileNotFoundError: No such file, or a plugin folder is missing.
    """
    path = find_recipe(name)
    tree = _read_with_plugins(path)
    parent = tree.pop("extends", None)
    if parent is not None:
        below = _read_with_plugins(find_recipe(str(parent)))
        if "extends" in below:
            raise ValueError(f"{path}: extends {parent!r}, which itself extends another recipe; one level is the limit")
        tree = _merged(below, tree)
    for override in overrides:
        tree = _merged(tree, _override(override))
    folders = dict.fromkeys((*use_plugins(tree, path), *named_folders()))
    return recipe_from_tree({**tree, "plugins": [str(each) for each in folders]}, where=str(path))


def use_plugins(tree: Mapping[str, Any], path: Path) -> tuple[Path, ...]:
    """Takes the plugin folders into use that the recipe in the file `path` names, and returns their absolute paths.

    Raises:
        FileNotFoundError: A plugin folder is missing.
        ValueError: The key `plugins` is not a list of folders.
    """
    listed = tree.get("plugins") or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{path}: plugins is {listed!r}; it must be a list of folders, for instance [my_plugin]")
    return add_folders((path.parent / Path(each).expanduser() for each in listed), named_by=f"{path}, plugins")


def use_plugins_of_run(run: Path) -> None:
    """Takes the plugin folders into use that a run was made with; does nothing where there is no run.

    Raises:
        FileNotFoundError: A plugin folder is missing.
    """
    path = run / "recipe.yaml"
    if path.is_file():
        use_plugins(_read_tree(path), path)


def recipe_from_tree(tree: Mapping[str, Any], *, where: str) -> Recipe:
    """Returns the typed recipe.

    Raises:
        ValueError: An unknown key, a missing one, or a value of the wrong type.
    """
    _refuse_unknown(Recipe, tree, prefix="", where=where)
    recipe = _typed(Recipe, _with_whole_stages(tree), where=where)
    check_recipe(recipe)
    return recipe


def read_settings(kind: type[_T], file: Path | None, overrides: Sequence[str], *, where: str) -> _T:
    """Returns other settings than a recipe, of a YAML file (or of nothing) with `overrides` applied.

    Raises:
        FileNotFoundError: No such file.
        ValueError: As `recipe_from_tree`.
    """
    if file is not None and not file.is_file():
        raise FileNotFoundError(f"no file {file}")
    tree = _read_tree(file) if file else {}
    for override in overrides:
        tree = _merged(tree, _override(override))
    _refuse_unknown(kind, tree, prefix="", where=where)
    return _typed(kind, tree, where=where)


def _typed(kind: type[_T], tree: Mapping[str, Any], *, where: str) -> _T:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, "recipe", fail_untyped=True)
    try:
        parsed = parser.parse_object({"recipe": dict(tree)})
        found = parser.instantiate_classes(parsed).recipe
    except (ArgumentError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: {_plain(error)}") from error
    if not isinstance(found, kind):
        raise TypeError(f"{where}: the schema gave a {type(found).__name__}")
    return found


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


def _plain(error: Exception) -> str:
    return " ".join(str(error).split()).replace("recipe.", "")


def _read_with_plugins(path: Path) -> Tree:
    """Returns the tree with absolute paths of its plugin folders, which are taken into use: a parent may lie there."""
    tree = _read_tree(path)
    return {**tree, "plugins": [str(each) for each in use_plugins(tree, path)]} if "plugins" in tree else tree


def _read_tree(path: Path) -> Tree:
    try:
        tree = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(
            f"{path}: wanted keys with values; a recipe is a mapping with the blocks model, data, train, eval and log"
        )
    return tree


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        if isinstance(old, list) and isinstance(value, dict):
            out[key] = _merged_list(key, old, value)
        else:
            out[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _merged_list(key: str, below: Sequence[Any], above: Mapping[str, Any]) -> list[Any]:
    """Returns the list with those elements changed that `above` numbers: train.stages.0.max_steps=10."""
    out = list(below)
    for number, value in above.items():
        if not str(number).isdecimal() or int(number) >= len(out):
            raise ValueError(f"{key}.{number}: {key} has the elements 0 to {len(out) - 1}")
        old = out[int(number)]
        out[int(number)] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _with_whole_stages(tree: Mapping[str, Any]) -> Tree:
    """Returns the tree whose stages say all that they take from the blocks `train` and `model.tuning`."""
    train = tree.get("train") or {}
    stages = train.get("stages")
    if not stages:
        return dict(tree)
    shared = {key: train[key] for key in STAGE_KEYS if key in train}
    tuning = _merged(dataclasses.asdict(Tuning()), (tree.get("model") or {}).get("tuning") or {})
    whole = [{**shared, **stage, "tuning": _merged(tuning, stage.get("tuning") or {})} for stage in stages]
    return {**tree, "train": {**train, "stages": whole}}


def _override(text: str) -> Tree:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--set {text!r}: expected KEY=VALUE, for instance train.max_steps=10")
    tree: Any = yaml.safe_load(value)
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def _refuse_unknown(kind: type, tree: Mapping[str, Any], *, prefix: str, where: str) -> None:
    hints = typing.get_type_hints(kind)
    for key, value in tree.items():
        if key not in hints:
            raise ValueError(
                f"{where}: no key {prefix + str(key)!r}.{catalog.nearest(str(key), hints)} "
                f"There are: {', '.join(prefix + name for name in hints)}"
            )
        hint, place = hints[key], f"{prefix}{key}"
        inner = _dataclass_in(hint)
        if inner is None or (value is None and type(None) in typing.get_args(hint)):
            continue
        listed = typing.get_origin(hint) is tuple
        if listed and not isinstance(value, list | tuple):
            raise ValueError(f"{where}: {place} is {value!r}; it must be a list of blocks of keys")
        blocks = {f"{place}.{number}": each for number, each in enumerate(value)} if listed else {place: value}
        for name, block in blocks.items():
            if not isinstance(block, Mapping):
                raise ValueError(f"{where}: {name} is {block!r}; it must be a block of keys")
            _refuse_unknown(inner, block, prefix=f"{name}.", where=where)


def _dataclass_in(hint: Any) -> type | None:
    """The block that a field holds; one that may be left out, and those of a list, too."""
    for kind in (hint, *typing.get_args(hint)):
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return kind
    return None
