"""`medtune train`: trains a model without evaluating it before and after."""

import argparse
from collections.abc import Sequence

from medtune.trainer.commands.arguments import add_recipe, add_run_folder
from medtune.trainer.commands.recipes.start import add_launch, read_recipe_of, start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune train`."""
    add_recipe(parser)
    add_run_folder(parser)
    add_launch(parser)


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune train`: trains and returns the exit status."""
    return start("train", read_recipe_of(options), options, arguments)
