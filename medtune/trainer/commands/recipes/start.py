"""Starts the work of `medtune run`, `train` or `eval` on one recipe: one process for each device that it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from medtune.trainer.experiment.processes import launch, needs_launch
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

Work = Literal["run", "train", "eval"]


def read_recipe_of(options: argparse.Namespace) -> Recipe:
    """Returns the recipe that the arguments name, with the values that they override.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A value is wrong, or --resume stands without --out.
    """
    recipe = read_recipe(options.recipe, options.overrides)
    if options.resume and options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to continue")
    return recipe


def start(work: Work, recipe: Recipe, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Does the work in this process, or in one process for each device, and returns the exit status.

    Raises:
        ValueError: The recipe has a grid.
    """
    if recipe.grid:
        refuse_grid()
    out = run_folder(options)
    if needs_launch(recipe.train.devices):
        extra = [] if options.out else ["--out", str(out)]
        return launch([*arguments, *extra], devices=recipe.train.devices)
    # Imported here: a process that only launches others needs neither torch nor Lightning.
    from medtune.trainer.experiment import run

    job = run.Job(
        recipe=recipe,
        recipe_name=Path(options.recipe).stem,
        out=out,
        resume=options.resume,
        limit=options.limit,
        command=["medtune", *arguments],
    )
    return {"run": run.run, "train": run.train, "eval": run.evaluate}[work](job)


def run_folder(options: argparse.Namespace) -> Path:
    """Returns the folder that --out names, or a new one named after the recipe and the time."""
    return Path(options.out or Path("runs") / Path(options.recipe).stem / f"{datetime.now():%Y%m%d-%H%M%S}")


def refuse_grid() -> None:
    """Refuses a recipe with a grid where a single run is wanted.

    Raises:
        ValueError: Always; the message says what to do.
    """
    raise ValueError("a recipe with a grid takes `medtune run` without --seeds; for one combination set grid=null")
