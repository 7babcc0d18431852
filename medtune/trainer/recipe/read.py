"""Reads a recipe from its YAML file, the recipes that it extends and `--set`, and checks it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from medtune.data import catalog
from medtune.data.plugins import add_folders, folders_in_use, named_folders
from medtune.models.tuning.plan import Tuning
from medtune.trainer.recipe.build import (
    COMMAND_LINE,
    SettingsLayer,
    build,
    merge,
    merged,
    override_layer,
    read_layer,
    says,
)
from medtune.trainer.recipe.check import check_recipe
from medtune.trainer.recipe.schema import AUTO, STAGE_KEYS, Recipe

WRITTEN = "recipe.yaml"
"""The name of a recipe that a run or an export wrote; no recipe that medtune ships, or that `init` writes, bears it."""
_OF_A_READ_FOLDER = (WRITTEN, "environment.json", "adapter_config.json", "config.json")
"""Files of runs, exports, adapters and checkpoints. A recipe that lies beside one of them came with the folder."""

_MICRO_BATCH = ("micro_batch_size", "micro_batch_tokens")
"""The two ways to say how large a micro-batch is; only one of them counts."""
Tree = dict[str, Any]
_T = TypeVar("_T")


def read_with_plugins(path: Path, *, is_own: bool | None = None) -> SettingsLayer:
    """Returns the layer of a recipe's file, with absolute paths of its plugin folders, and takes these into use.

    In the file the paths are relative to the file itself. A recipe that this one extends may lie in one of the folders.

    Args:
        is_own: As in `use_plugins`.
    """
    layer = read_layer(path)
    if "plugins" not in layer.tree:
        return layer
    folders = [str(each) for each in use_plugins(layer.tree, path, is_own=is_own)]
    return SettingsLayer(layer.origin, {**layer.tree, "plugins": folders})


def use_plugins(tree: Mapping[str, object], path: Path, *, is_own: bool | None = None) -> tuple[Path, ...]:
    """Takes the plugin folders of a recipe, which may be relative to it, into use; returns their absolute paths.

    Args:
        is_own: Whether the recipe is the user's own. One that came with a folder which is only read brings no code: its
            plugins have to be in use already. None tells it by where the file lies.
    """
    listed = tree.get("plugins") or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{path}: plugins is {listed!r}; it must be a list of folders, for instance [my_plugin]")
    folders = [path.parent / Path(each).expanduser() for each in listed]
    if is_own is None:
        is_own = is_own_recipe(path)
    take = add_folders if is_own else folders_in_use
    return take(folders, named_by=f"{path}, plugins")


def is_own_recipe(path: Path) -> bool:
    """Returns whether a recipe is the user's own, and none that a run, an export or a checkpoint came with."""
    return path.name != WRITTEN and not any((path.parent / name).exists() for name in _OF_A_READ_FOLDER)


def use_plugins_of_run(run: Path) -> None:
    """Refuses a run whose plugin folders are not in use; does nothing if `run` is not a run folder."""
    path = run / WRITTEN
    if path.is_file():
        use_plugins(read_layer(path).tree, path)


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe: by its name in medtune or a plugin, or by its path."""
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise FileNotFoundError(f"no recipe file {name}")
        return Path(name)
    if (Path(name) / "recipe.yaml").is_file():
        raise ValueError(
            f"{name} is the folder of a run, an export or a checkpoint, and a recipe is a name or a YAML file. A run "
            f"goes on with `medtune run RECIPE --out {name} --resume`"
        )
    return catalog.find(catalog.RECIPES, name).file


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Returns a recipe with `overrides` applied, for instance "train.max_steps=10".

    The plugin folders that the recipe names are taken into use. For keys that have been renamed, the new name is
    printed on stderr.
    """
    layers = read_layers(name, overrides)
    tree: Tree = merge(layers)
    folders = dict.fromkeys((*map(Path, tree.get("plugins") or ()), *named_folders()))
    return _recipe({**tree, "plugins": [str(each) for each in folders]}, layers)


def read_layers(name: str, overrides: Sequence[str] = ()) -> list[SettingsLayer]:
    """Returns the layers of a recipe: the recipe that extends no other, those above it in order, then the overrides."""
    files = _chain(find_recipe(name))
    replaced = [override_layer(override) for override in overrides]
    if any("plugins" in layer.tree for layer in replaced):
        raise ValueError(f"{COMMAND_LINE} plugins: name plugin folders with --plugins FOLDER, or in the recipe's file")
    return [*files, *replaced]


def _chain(path: Path) -> list[SettingsLayer]:
    layers: list[SettingsLayer] = []
    chain: dict[Path, str] = {}
    is_own = True
    while True:
        # What a recipe of a folder that is read extends, it brings with it.
        is_own = is_own and is_own_recipe(path)
        own = read_with_plugins(path, is_own=is_own)
        layers.insert(0, SettingsLayer(own.origin, {key: value for key, value in own.tree.items() if key != "extends"}))
        chain[path.resolve()] = str(path)
        parent = own.tree.get("extends")
        if parent is None:
            return layers
        if not isinstance(parent, str):
            raise ValueError(f"{path}: extends is {parent!r}; it takes the name or the file of one recipe")
        path = _extended(parent, path)
        if path.resolve() in chain:
            circle = " extends ".join([*chain.values(), str(path)])
            raise ValueError(f"{path}: recipes that extend each other in a circle: {circle}")


def _extended(parent: str, named_by: Path) -> Path:
    try:
        is_file = parent.endswith((".yaml", ".yml"))
        return find_recipe(str(named_by.parent / Path(parent).expanduser()) if is_file else parent)
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(f"{named_by}: extends {parent!r}: {error}") from error


def recipe_from_tree(tree: Mapping[str, Any], *, where: str) -> Recipe:
    return _recipe(tree, [SettingsLayer(where, tree)])


def read_settings(kind: type[_T], file: Path | None, overrides: Sequence[str], *, below: Tree | None = None) -> _T:
    """Returns settings other than a recipe, from a YAML file with `overrides` applied."""
    if file is not None and not file.is_file():
        raise FileNotFoundError(f"no file {file}")
    lowest = SettingsLayer(COMMAND_LINE, below or {}) if file is None else read_layer(file)
    layers = [lowest, *map(override_layer, overrides)]
    return build(kind, merge(layers), layers)


def _recipe(tree: Mapping[str, Any], layers: Sequence[SettingsLayer]) -> Recipe:
    tree = _with_one_micro_batch(tree, layers)
    recipe = build(Recipe, tree, layers)
    if recipe.train.stages:
        # The first build has checked the blocks. The stages can now take from them the values that they leave out.
        recipe = build(Recipe, _with_whole_stages(tree), layers)
    try:
        recipe = _with_checkpoint_name(recipe)
        check_recipe(recipe)
    except ValueError as error:
        # Of several fields, one that the command line gives may be to blame.
        if any(layer.origin == COMMAND_LINE for layer in layers):
            raise
        raise ValueError(f"{layers[-1].origin}: {error}") from error
    if recipe.model.dtype == "bfloat16" and recipe.train.precision == "auto":
        # Weights that are read in bfloat16 are computed with in bfloat16, on every device.
        return dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, precision="bf16-mixed"))
    return recipe


def _with_checkpoint_name(recipe: Recipe) -> Recipe:
    model = recipe.model
    if model.name in catalog.names(catalog.MODELS) or not ("/" in model.name or Path(model.name).is_dir()):
        return recipe
    if model.weights not in (None, model.name):
        raise ValueError(
            f"model.name is {model.name!r}, which is a hub id or a folder, and model.weights is {model.weights!r}; "
            f"give only one of them, or set model.name={AUTO}"
        )
    return dataclasses.replace(recipe, model=dataclasses.replace(model, name=AUTO, weights=model.name))


def _with_whole_stages(tree: Mapping[str, Any]) -> Tree:
    train = tree["train"]
    shared = {key: train[key] for key in STAGE_KEYS if key in train}
    tuning = merged(dataclasses.asdict(Tuning()), tree["model"].get("tuning", {}))
    replies = shared.get("replies") or {}
    stages = [
        {
            **_shared_with(stage, shared),
            **stage,
            "replies": merged(replies, stage.get("replies") or {}),
            "tuning": merged(tuning, stage.get("tuning", {})),
        }
        for stage in train["stages"]
    ]
    return {**tree, "train": {**train, "stages": stages}}


def _shared_with(stage: Mapping[str, Any], shared: Mapping[str, Any]) -> Tree:
    says_itself = any(stage.get(key) is not None for key in _MICRO_BATCH)
    return {key: value for key, value in shared.items() if not (says_itself and key in _MICRO_BATCH)}


def _with_one_micro_batch(tree: Mapping[str, Any], layers: Sequence[SettingsLayer]) -> Tree:
    train = tree.get("train")
    if not isinstance(train, Mapping):
        return dict(tree)
    train = _one_micro_batch(train, layers, ("train",))
    if isinstance(stages := train.get("stages"), list | tuple):
        train["stages"] = [
            _one_micro_batch(stage, layers, ("train", "stages", str(number))) if isinstance(stage, Mapping) else stage
            for number, stage in enumerate(stages)
        ]
    return {**tree, "train": train}


def _one_micro_batch(block: Mapping[str, Any], layers: Sequence[SettingsLayer], place: tuple[str, ...]) -> Tree:
    if any(block.get(key) is None for key in _MICRO_BATCH):
        return dict(block)
    overrides = merge([layer for layer in layers if layer.origin == COMMAND_LINE])
    layers = [*(layer for layer in layers if layer.origin != COMMAND_LINE), SettingsLayer(COMMAND_LINE, overrides)]
    size, tokens = (
        max(number for number, layer in enumerate(layers) if says(layer.tree, (*place, key))) for key in _MICRO_BATCH
    )
    if size == tokens:
        name = ".".join(place)
        raise ValueError(
            f"{layers[size].origin}: {name}.micro_batch_size and {name}.micro_batch_tokens are both given; a "
            "micro-batch is counted in media groups or in tokens: leave one of them out"
        )
    dropped = _MICRO_BATCH[int(tokens < size)]
    return {key: value for key, value in block.items() if key != dropped}


def recipe_to_yaml(recipe: Recipe) -> str:
    return yaml.safe_dump(recipe_tree(recipe), sort_keys=False)


def recipe_tree(recipe: Recipe) -> Tree:
    """Returns the resolved recipe as nested dictionaries and lists, as they are written to YAML and JSON."""
    tree: Tree = _plain_tree(dataclasses.asdict(recipe))
    for block in (tree["train"], *tree["train"]["stages"]):
        # It does not count beside a budget, and no file may give both.
        if block["micro_batch_tokens"] is not None:
            del block["micro_batch_size"]
    return tree if recipe.plugins else {key: value for key, value in tree.items() if key != "plugins"}


def _plain_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_tree(child) for key, child in value.items()}
    if isinstance(value, tuple | list):
        return [_plain_tree(child) for child in value]
    return str(value) if isinstance(value, Path) else value
