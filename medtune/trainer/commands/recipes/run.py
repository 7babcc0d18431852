"""`medtune run`: evaluates, trains and evaluates again; with a grid or --seeds it makes several such runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.trainer.commands.arguments import ACCEPT_CHANGED_DATA, add_recipe, add_run_folder, positive
from medtune.trainer.commands.recipes.start import add_launch, read_recipe_of, refuse_grid, run_folder, start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune run`."""
    add_recipe(parser)
    add_run_folder(parser)
    add_launch(parser)
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="Makes N runs whose train.seed counts up from the recipe's, and reports their common gain "
        "(default: a single run).",
    )
    parser.add_argument(
        "--no-doctor",
        action="store_true",
        help="Leaves out the checks of `medtune doctor`, with which the first run of a checkpoint on a machine begins.",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune run`: makes one run, or all of the recipe's grid or of --seeds, and returns the exit status."""
    recipe = read_recipe_of(options)
    if recipe.grid or options.seeds is not None:
        _refuse_machines(options, nodes=options.nodes or recipe.train.nodes)
    if recipe.grid:
        if options.seeds is not None:
            refuse_grid()
        from medtune.trainer.series.grid import run_grid

        each, out = _each_run(options), run_folder(options, Path(options.recipe).stem)
        return run_grid(_run_again, each, out=out, grid=recipe.grid, resume=options.resume)
    if options.seeds is not None:
        from medtune.trainer.series.seeds import run_seeds

        each = [*_each_run(options), *(["--resume"] if options.resume else [])]
        out = run_folder(options, Path(options.recipe).stem)
        return run_seeds(_run_again, each, out=out, first_seed=recipe.train.seed, number=options.seeds)
    return start("run", recipe, options, arguments, prove=not options.no_doctor)


def _refuse_machines(options: argparse.Namespace, *, nodes: int) -> None:
    if nodes > 1 or options.slurm is not None or options.dry:
        raise ValueError(
            "a grid and --seeds make their runs one after another on one machine; leave --nodes and --slurm out, or "
            "start each combination by itself with --set grid=null or --set train.seed=N"
        )


def _run_again(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="medtune run")
    add_arguments(parser)
    return command(parser.parse_args(arguments[1:]), arguments)


def _each_run(options: argparse.Namespace) -> list[str]:
    limit = ["--limit", str(options.limit)] if options.limit else []
    overrides = ["--set", *options.overrides] if options.overrides else []
    unproven = ["--no-doctor"] if options.no_doctor else []
    accepted = [ACCEPT_CHANGED_DATA] if options.accept_changed_data else []
    devices = ["--devices", str(options.devices)] if options.devices else []
    restarts = ["--restarts", str(options.restarts)] if options.restarts else []
    return ["run", options.recipe, *limit, *unproven, *accepted, *devices, *restarts, *overrides]
