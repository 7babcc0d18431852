"""`medtune eval`: evaluates a recipe's model, or the trained model of a run, without training."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.trainer.commands.arguments import add_overrides, add_run_folder
from medtune.trainer.commands.recipes.engine_arguments import add_engine, engine_settings
from medtune.trainer.commands.recipes.launch_arguments import add_launch
from medtune.trainer.commands.recipes.start import read_recipe_of, run_folder, start
from medtune.trainer.engine.settings import EngineSettings
from medtune.trainer.launch.started import how_started
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe


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
    add_engine(parser)


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune eval`: evaluates and returns the exit status.

    Raises:
        FileNotFoundError: The recipe, its data or its weights are missing.
        ValueError: The recipe or the arguments do not fit.
    """
    settings, run = engine_settings(options), Path(options.recipe)
    if not (run / "recipe.yaml").is_file():
        if settings is not None:
            raise ValueError(f"--engine serves the model of a run; {options.recipe} is no run folder (no recipe.yaml)")
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
    if settings is None:
        _refuse_other_engine(options)
        return start("eval", recipe, options, arguments, name=name)
    return _serve(recipe, folder.root, name, settings, options, arguments)


def _serve(
    recipe: Recipe,
    run: Path,
    name: str,
    settings: EngineSettings,
    options: argparse.Namespace,
    arguments: Sequence[str],
) -> int:
    import torch

    from medtune.trainer.commands.runs.export import SAMPLES, export_run
    from medtune.trainer.engine.served_run import evaluate_on_servers, refuse_recipe
    from medtune.trainer.experiment.experiment import open_experiment
    from medtune.trainer.experiment.run_folder import RunFolder
    from medtune.trainer.exporting.write import Wanted

    if how_started().world_size > 1:
        raise ValueError("--engine asks servers from one process; start the command without torchrun, as one task")
    refuse_recipe(recipe, settings)
    trained = read_recipe(str(RunFolder(run).recipe)).model
    if replace(recipe.model, checkpoint=None) != replace(trained, checkpoint=None):
        raise ValueError("--set model.*: a server holds the model as the run left it; leave --engine out")
    # The servers have the devices; this process only compares and asks.
    recipe = replace(recipe, train=replace(recipe.train, nodes=1, devices=1))
    out = run_folder(options, name)
    experiment = open_experiment(
        recipe,
        RunFolder(out),
        name=name,
        training=False,
        resume=options.resume,
        limit=options.limit,
        command=["medtune", *arguments],
        accept_changed_data=options.accept_changed_data,
    )
    wanted = Wanted(as_adapter=False, dtype="base", device=torch.device("cpu"), samples=SAMPLES)

    def export(run: Path, out: Path) -> object:
        return export_run(run, out, wanted)

    return evaluate_on_servers(experiment, RunFolder(run), settings, export, resume=options.resume)


def _refuse_other_engine(options: argparse.Namespace) -> None:
    """Refuses to continue in this process an evaluation that was begun on servers."""
    if options.resume:
        from medtune.trainer.engine.record import refuse_other_answers

        refuse_other_answers(options.out, engine=None, weights=None)
