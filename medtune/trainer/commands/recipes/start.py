"""Starts the work of `medtune run`, `train` or `eval` on one recipe, in one process for each of its devices."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from medtune.trainer.devices.launch import launch, needs_launch
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import AUTO, Recipe

Work = Literal["run", "train", "eval"]


def read_recipe_of(options: argparse.Namespace) -> Recipe:
    """Returns the recipe that the arguments name, with the values that they override.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A value is wrong, or --resume is given without --out.
    """
    recipe = read_recipe(options.recipe, options.overrides)
    if options.resume and options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to continue")
    return recipe


def start(
    work: Work,
    recipe: Recipe,
    options: argparse.Namespace,
    arguments: Sequence[str],
    *,
    name: str | None = None,
    prove: bool = False,
) -> int:
    """Does the work in this process, or in one process for each device, and returns the exit status.

    Args:
        work: The command.
        recipe: The recipe as it was read from its file.
        options: The parsed arguments.
        arguments: All arguments as given.
        name: The recipe's name; None takes it from the argument `recipe`.
        prove: Whether the first run of a checkpoint on this machine begins with the proof of `medtune doctor`.

    Raises:
        ValueError: The recipe has a grid.
    """
    if recipe.grid:
        refuse_grid()
    name = name or Path(options.recipe).stem
    out = run_folder(options, name)
    if needs_launch(recipe.train.devices):
        extra = [] if options.out else ["--out", str(out)]
        return launch([*arguments, *extra], devices=recipe.train.devices)
    # These imports load torch and Lightning, which a process that only launches others does not need.
    from medtune.trainer.doctor.first_run import proven_on_first_run
    from medtune.trainer.experiment import run
    from medtune.trainer.experiment.experiment import open_experiment
    from medtune.trainer.experiment.run_folder import RunFolder

    experiment = open_experiment(
        recipe,
        RunFolder(out),
        name=name,
        training=work != "eval",
        resume=options.resume,
        limit=options.limit,
        command=["medtune", *arguments],
    )
    # A checkpoint that has no entry of its own is trusted by no command before it is proven.
    unknown = recipe.model.name == AUTO and work != "run"
    if (prove or unknown) and not proven_on_first_run(experiment, resumed=options.resume):
        return 1
    return {"run": run.run, "train": run.train, "eval": run.evaluate}[work](experiment)


def run_folder(options: argparse.Namespace, name: str) -> Path:
    """Returns the folder that --out names, or a new one named after the recipe and the time."""
    return Path(options.out or Path("runs") / name / f"{datetime.now():%Y%m%d-%H%M%S}")


def refuse_grid() -> None:
    """Refuses a recipe with a grid for a command that makes a single run.

    Raises:
        ValueError: Always; the message says what to do.
    """
    raise ValueError("a recipe with a grid takes `medtune run` without --seeds; for one combination set grid=null")
