"""`medtune eval`: evaluates the recipe's model, or its `model.checkpoint`, without training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from medtune.trainer.commands.arguments import add_recipe, add_run_folder
from medtune.trainer.commands.recipes.start import read_recipe_of, start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune eval`."""
    add_recipe(parser)
    add_run_folder(parser)


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune eval`: evaluates and returns the exit status.

    Raises:
        FileNotFoundError: The recipe, its data or its weights are missing.
        ValueError: The recipe or the arguments do not fit.
    """
    return start("eval", read_recipe_of(options), options, arguments)
