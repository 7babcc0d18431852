"""The plugin folders that a recipe names: relative to its file, and absolute from then on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medtune.data.plugins import add_folders
from medtune.trainer.recipe.layers import Layer, read_layer


def read_with_plugins(path: Path) -> Layer:
    """Returns a recipe's layer with absolute paths of its plugin folders, which are taken into use.

    The recipe that it extends may lie in one of them.

    Raises:
        FileNotFoundError: A plugin folder is missing.
        ValueError: The file is not YAML, or its key `plugins` is not a list of folders.
    """
    layer = read_layer(path)
    if "plugins" not in layer.tree:
        return layer
    folders = [str(each) for each in use_plugins(layer.tree, path)]
    return Layer(layer.origin, {**layer.tree, "plugins": folders})


def use_plugins(tree: Mapping[str, object], path: Path) -> tuple[Path, ...]:
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
        use_plugins(read_layer(path).tree, path)
