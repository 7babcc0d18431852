"""Reads the plugin folders that a recipe names, and lets medtune find the extensions in them."""

from collections.abc import Mapping
from pathlib import Path

from medtune.data.plugins import add_folders
from medtune.trainer.recipe.layers import Layer, read_layer


def read_with_plugins(path: Path) -> Layer:
    """Returns the layer of a recipe's file, with absolute paths of its plugin folders, and takes these into use.

    In the file the paths are relative to the file itself. A recipe that this one extends may lie in one of the folders.
    """
    layer = read_layer(path)
    if "plugins" not in layer.tree:
        return layer
    folders = [str(each) for each in use_plugins(layer.tree, path)]
    return Layer(layer.origin, {**layer.tree, "plugins": folders})


def use_plugins(tree: Mapping[str, object], path: Path) -> tuple[Path, ...]:
    """Takes the plugin folders of a recipe into use and returns their absolute paths.

    Args:
        tree: The recipe's keys and values.
        path: The recipe's file; relative folders are looked for beside it.
    """
    listed = tree.get("plugins") or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{path}: plugins is {listed!r}; it must be a list of folders, for instance [my_plugin]")
    return add_folders((path.parent / Path(each).expanduser() for each in listed), named_by=f"{path}, plugins")


def use_plugins_of_run(run: Path) -> None:
    """Takes the plugin folders into use that a run was made with; does nothing if `run` is not a run folder."""
    path = run / "recipe.yaml"
    if path.is_file():
        use_plugins(read_layer(path).tree, path)
