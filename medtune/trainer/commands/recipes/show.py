"""`medtune show`: prints a recipe with every value resolved, or the fields that recipes have."""

import argparse
from collections.abc import Mapping, Sequence

from medtune.trainer.commands.arguments import add_overrides
from medtune.trainer.recipe.fields import fields_text, recipe_fields
from medtune.trainer.recipe.layers import origins
from medtune.trainer.recipe.read import find_recipe, read_layers, read_recipe, recipe_to_yaml, recipe_tree
from medtune.trainer.recipe.schema import Recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune show`."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="?",
        help="The name of a shipped recipe, or the path of a YAML file (default: none, which only --fields allows).",
    )
    add_overrides(parser, of="recipe", example="train.max_steps=10")
    parser.add_argument(
        "--origins",
        action="store_true",
        help="Prints one line for each value, with the file that gives it: RECIPE or one that it extends.",
    )
    parser.add_argument(
        "--fields",
        metavar="BLOCK",
        nargs="?",
        const="",
        help="Prints the fields of recipes instead, with type, default and meaning: all of them, or those of BLOCK, "
        "for instance train or model.tuning (default: a recipe is printed).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune show`: prints the recipe under its header, or the fields, and returns 0."""
    if (options.recipe is None) == (options.fields is None):
        raise ValueError("show takes a RECIPE, or --fields [BLOCK] for the fields that recipes have")
    if options.fields is not None:
        print(fields_text(recipe_fields(options.fields)))
        return 0
    recipe = read_recipe(options.recipe, options.overrides)
    if options.origins:
        print(_origins_text(recipe, options.recipe, options.overrides))
        return 0
    for line in find_recipe(options.recipe).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        print(line)
    print(recipe_to_yaml(recipe), end="")
    return 0


def _origins_text(recipe: Recipe, name: str, overrides: Sequence[str]) -> str:
    tree = recipe_tree(recipe)
    said = origins(read_layers(name, overrides), tree)
    return "\n".join(f"{key} = {_value(tree, key)!r}    {origin}" for key, origin in said.items())


def _value(tree: Mapping[str, object], key: str) -> object:
    value: object = tree
    for step in key.split("."):
        value = value[step] if isinstance(value, Mapping) else value
    return value
