"""`medtune eval`: evaluates a recipe's model, or the trained model of a run, without training."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.trainer.commands.arguments import add_overrides, add_run_folder
from medtune.trainer.commands.recipes.start import add_launch, read_recipe_of, start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune eval`."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE|RUN",
        help="The name of a shipped recipe, the path of a YAML file, or a run folder, whose best trained weights are "
        "evaluated.",
    )
    add_overrides(parser, of="recipe", example="eval.max_new_tokens=64")
    add_run_folder(parser)
    add_launch(parser)


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune eval`: evaluates and returns the exit status."""
    run = Path(options.recipe)
    if not (run / "recipe.yaml").is_file():
        return start("eval", read_recipe_of(options), options, arguments)
    # These imports load torch, which a recipe that is only launched does not need.
    from medtune.trainer.experiment.run_folder import RunFolder
    from medtune.trainer.series.finished_run import found_data

    folder = RunFolder(run)
    name = str(folder.recorded()["recipe"])
    recipe = read_recipe_of(argparse.Namespace(**{**vars(options), "recipe": str(folder.recipe)}))
    # The number of machines that the run was trained on says nothing about where it is evaluated.
    recipe = replace(
        recipe,
        data=replace(recipe.data, root=found_data(recipe.data.root, run=run)),
        train=replace(recipe.train, nodes=1),
    )
    if folder.has_best:
        recipe = replace(recipe, model=replace(recipe.model, checkpoint=folder.best))
    return start("eval", recipe, options, arguments, name=name)
