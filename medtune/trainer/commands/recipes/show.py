"""`medtune show`: prints a recipe with every value resolved, or the fields that recipes have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from medtune.trainer.commands.arguments import add_overrides
from medtune.trainer.recipe.fields import fields_text, recipe_fields
from medtune.trainer.recipe.read import find_recipe, read_recipe, recipe_to_yaml


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
        "--fields",
        metavar="BLOCK",
        nargs="?",
        const="",
        help="Prints the fields of recipes instead, with type, default and meaning: all of them, or those of BLOCK, "
        "for instance train or model.tuning (default: a recipe is printed).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune show`: prints the recipe under its header, or the fields, and returns 0.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The recipe has a wrong value, the block does not exist, or not exactly one of RECIPE and --fields is
            given.
    """
    if (options.recipe is None) == (options.fields is None):
        raise ValueError("show takes a RECIPE, or --fields [BLOCK] for the fields that recipes have")
    if options.fields is not None:
        print(fields_text(recipe_fields(options.fields)))
        return 0
    recipe = read_recipe(options.recipe, options.overrides)
    for line in find_recipe(options.recipe).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        print(line)
    print(recipe_to_yaml(recipe), end="")
    return 0
