"""Starts the work of `medtune run`, `train` or `eval` on one recipe, in one process for each of its devices."""

import argparse
import contextlib
import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from medtune.trainer.commands.arguments import (
    ACCEPT_CHANGED_DATA,
    Commands,
    add_overrides,
    add_recipe,
    add_run_folder,
    positive,
)
from medtune.trainer.launch.held import held, refuse_held
from medtune.trainer.launch.imports import import_dashboard, import_parts, importing, keep_imported
from medtune.trainer.launch.marks import refuse_used
from medtune.trainer.launch.slurm import SlurmJob, slurm_job, submit
from medtune.trainer.launch.started import Started, count, how_started, meeting, with_counts
from medtune.trainer.launch.stop import stop_signals
from medtune.trainer.recipe.read import find_recipe, is_own_recipe, read_recipe
from medtune.trainer.recipe.schema import AUTO, Recipe
from medtune.trainer.recipe.servers import refuse_unnamed_servers

if TYPE_CHECKING:
    from medtune.trainer.series.runs import Series

Work = Literal["run", "train", "eval"]


def read_recipe_of(options: argparse.Namespace) -> Recipe:
    """Returns the recipe that the arguments name, with the values that they override."""
    recipe = read_recipe(options.recipe, options.overrides)
    if not is_own_recipe(find_recipe(options.recipe)):
        refuse_unnamed_servers(recipe, options.overrides, folder=Path(options.recipe).parent)
    if options.resume and options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to continue")
    if options.accept_changed_data and not options.resume:
        raise ValueError("--accept-changed-data is for a run that goes on: give --resume and --out too")
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
    """Does the work as one rank of the run, or starts the ranks of this machine, and returns the exit status.

    With `prove`, the first run of a checkpoint on this machine begins with the proof of `medtune doctor`.
    """
    if recipe.grid:
        refuse_grid()
    name = name or Path(options.recipe).stem
    if options.slurm is not None:
        asked = slurm_job(options.slurm, nodes=options.nodes or recipe.train.nodes, devices=options.devices)
        job = SlurmJob(
            asked, recipe_name=name, out=run_folder(options, name), arguments=arguments, names_out=bool(options.out)
        )
        return submit(job, resume=options.resume, dry=options.dry)
    if options.dry:
        raise ValueError("--dry prints the script of --slurm; give --slurm too")
    started = how_started()
    counts = count(started, recipe, nodes=options.nodes, devices=options.devices, node_rank=options.node_rank)
    counted = with_counts(recipe, counts)
    if counts.starts_ranks:
        where = meeting(counts.nodes, rendezvous=options.rendezvous, node_rank=counts.node_rank)
        if counts.nodes > 1 and options.out is None:
            raise ValueError(
                f"--nodes is {counts.nodes}: give --out, a folder that all machines see under this name; each machine "
                "would name the run after its own clock"
            )
        out = run_folder(options, name)
        # These imports load torch.
        from medtune.trainer.launch.agent import run_agent

        refuse_used(out, resume=options.resume)
        refuse_held(out)
        extra = [] if options.out else ["--out", str(out)]
        return run_agent(
            [*arguments, *extra],
            root=out,
            counts=counts,
            meeting=where,
            restarts=options.restarts,
            requeue=options.requeue,
        )
    if started.rank == 0 and counted.train != recipe.train and options.nodes is None and options.devices is None:
        train = counted.train
        print(
            f"train.nodes is {train.nodes} and train.devices {train.devices}, as this run is started", file=sys.stderr
        )
    with stop_signals():
        return _as_rank(work, counted, started, options, arguments, name, prove=prove)


def _as_rank(
    work: Work,
    recipe: Recipe,
    started: Started,
    options: argparse.Namespace,
    arguments: Sequence[str],
    name: str,
    *,
    prove: bool,
) -> int:
    # These imports load torch and Lightning, which a process that only submits a job does not need.
    with importing():
        if started.rank == 0:
            import_dashboard(recipe.log)
        from medtune.trainer.devices.ranks import left_as_found
        from medtune.trainer.experiment import run
        from medtune.trainer.experiment.experiment import open_experiment
        from medtune.trainer.launch.rank import join, one_folder, run_rank
        from medtune.trainer.runs.run_folder import RunFolder

        import_parts(recipe)
        keep_imported()

    folders: list[Path] = []

    def part() -> int:
        join(recipe.train)
        folder, resume = one_folder(
            Path(options.out or run_folder(options, name)),
            recipe.train,
            resume=options.resume,
            is_named=bool(options.out),
            holding=holding,
        )
        folders.append(folder)
        experiment = open_experiment(
            recipe,
            RunFolder(folder),
            name=name,
            training=work != "eval",
            resume=resume,
            limit=options.limit,
            command=["medtune", *arguments],
            accept_changed_data=options.accept_changed_data,
        )
        # A checkpoint that has no entry of its own is trusted by no command before it is proven.
        unknown = recipe.model.name == AUTO and work != "run"
        if (prove or unknown) and _has_checkpoint(recipe):
            from medtune.trainer.doctor import proven_on_first_run

            if not proven_on_first_run(experiment, resumed=resume):
                return 1
        if work == "run":
            experiment.say(run.plan_text(experiment, hardware=_hardware(options.recipe)))
        return {"run": run.run, "train": run.train, "eval": run.evaluate}[work](experiment)

    with left_as_found(), contextlib.ExitStack() as holding:
        return run_rank(part, started, root=lambda: next(iter(folders), None), requeue=options.requeue)


def _hardware(recipe: str) -> str:
    head = itertools.takewhile(lambda line: line.startswith("#"), find_recipe(recipe).read_text("utf-8").splitlines())
    words = re.split(r"^# *([A-Z][a-z]+): +", "\n".join(head), flags=re.MULTILINE)
    said = dict(zip(words[1::2], words[2::2], strict=True)).get("Hardware", "")
    return " ".join(said.replace("\n#", " ").split())


def _has_checkpoint(recipe: Recipe) -> bool:
    from medtune.models.assemble import zoo_entry

    model = recipe.model
    return model.endpoint is None and (model.weights is not None or zoo_entry(model.name, None).hub is not None)


def run_folder(options: argparse.Namespace, name: str) -> Path:
    """Returns the folder that --out names, or a new one named after the recipe and the time."""
    return Path(options.out or Path("runs") / name / f"{datetime.now():%Y%m%d-%H%M%S}")


def refuse_grid() -> None:
    """Refuses a recipe with a grid for a command that makes a single run."""
    raise ValueError("a recipe with a grid takes `medtune run` without --seeds; for one combination set grid=null")


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Adds --nodes, --devices and what else a launch takes."""
    group = parser.add_argument_group("machines and devices", "docs/cluster.md shows how they are used.")
    group.add_argument(
        "--nodes",
        type=positive,
        metavar="N",
        help="The number of machines; the command is started on each (default: train.nodes of the recipe).",
    )
    group.add_argument(
        "--devices",
        type=positive,
        metavar="N",
        help="The number of processes on each machine, each with a device of its own (default: train.devices).",
    )
    group.add_argument(
        "--rendezvous",
        metavar="HOST:PORT",
        help="Where the machines meet: the first machine's name and a free port of it (default: MASTER_ADDR and "
        "MASTER_PORT, or the first node of a SLURM job).",
    )
    group.add_argument(
        "--node-rank",
        type=int,
        metavar="N",
        help="The number of this machine, from 0; machine 0 keeps the meeting (default: the one that --rendezvous "
        "names).",
    )
    group.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="How often the processes are started again after a failure, on one machine; they go on with the last "
        "saved state (default: 0).",
    )
    group.add_argument(
        "--requeue",
        action="store_true",
        help="Asks SLURM to queue the job again after a stop by SIGUSR1 or SIGUSR2, which `sbatch --signal` sends "
        "before the time is over; the job then goes on with this run.",
    )
    group.add_argument(
        "--slurm",
        metavar="KEY=VALUE,...",
        help="Writes a script for SLURM and submits it, for instance nodes=2,gpus=8,time=24:00:00,partition=long "
        "(default: the command runs here).",
    )
    group.add_argument("--dry", action="store_true", help="With --slurm: prints the script and submits nothing.")


def run_arguments(parser: argparse.ArgumentParser) -> None:
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
        "--folds",
        type=positive,
        metavar="K",
        help="Divides the patients of the prepared folder into K folds, makes K runs, each of which is asked one fold "
        "and learns from the others, and pools their answers (default: the folder's own splits).",
    )
    parser.add_argument(
        "--no-doctor",
        action="store_true",
        help="Leaves out the checks of `medtune doctor`, with which the first run of a checkpoint on a machine begins.",
    )


def run_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune run`: makes one run, or all of the recipe's grid or of --seeds, and returns the exit status."""
    if options.folds is not None:
        options.overrides = [*options.overrides, f"data.folds={options.folds}"]
    recipe = read_recipe_of(options)
    in_folds = recipe.data.folds is not None and recipe.data.fold is None
    if in_folds and options.seeds is not None:
        raise ValueError("--seeds and folds are two series of runs; give one of them")
    if recipe.grid and options.seeds is not None:
        refuse_grid()
    if recipe.grid or in_folds or options.seeds is not None:
        return _run_series(recipe, options, arguments)
    return start("run", recipe, options, arguments, prove=not options.no_doctor)


def _run_series(recipe: Recipe, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.series.runs import run_series, submit_series

    if (options.nodes or recipe.train.nodes) > 1:
        raise ValueError(
            "the runs of a grid, of --seeds and of --folds are on one machine each; leave --nodes out, or start each "
            "by itself with --set grid=null, train.seed=N, or data.folds=K data.fold=N"
        )
    out = run_folder(options, Path(options.recipe).stem)
    series = _series_of(recipe, options, arguments, out)
    if options.slurm is not None:
        command = [*arguments, *(() if options.out else ("--out", str(out)))]
        return submit_series(_each_run(options), series, command=command, out=out, slurm=options.slurm, dry=options.dry)
    if options.dry:
        raise ValueError("--dry prints the scripts of --slurm; give --slurm too")
    with held(out):
        return run_series(_run_again, _each_run(options), series, resume=options.resume)


def _series_of(recipe: Recipe, options: argparse.Namespace, arguments: Sequence[str], out: Path) -> "Series":
    # These imports load scikit-learn and what reads results.
    from medtune.trainer.series.folds import folds
    from medtune.trainer.series.grid import grid
    from medtune.trainer.series.seeds import seeds

    if recipe.grid:
        return grid(out, recipe.grid)
    if options.seeds is not None:
        return seeds(out, first_seed=recipe.train.seed, number=options.seeds)
    return folds(out, number=recipe.data.folds or 0, command=arguments)


def _run_again(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="medtune run")
    run_arguments(parser)
    return run_command(parser.parse_args(arguments[1:]), arguments)


def _each_run(options: argparse.Namespace) -> list[str]:
    limit = ["--limit", str(options.limit)] if options.limit else []
    overrides = ["--set", *options.overrides] if options.overrides else []
    unproven = ["--no-doctor"] if options.no_doctor else []
    accepted = [ACCEPT_CHANGED_DATA] if options.accept_changed_data else []
    devices = ["--devices", str(options.devices)] if options.devices else []
    restarts = ["--restarts", str(options.restarts)] if options.restarts else []
    return ["run", options.recipe, *limit, *unproven, *accepted, *devices, *restarts, *overrides]


def train_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_run_folder(parser)
    add_launch(parser)


def train_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune train`: trains and returns the exit status."""
    return start("train", read_recipe_of(options), options, arguments)


def eval_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE|RUN",
        help="The name of a shipped recipe, the path of a YAML file, or a run folder, whose best trained weights are "
        "evaluated.",
    )
    add_overrides(parser, of="recipe", example="eval.max_new_tokens=64")
    add_run_folder(parser)
    add_launch(parser)


def eval_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune eval`: evaluates and returns the exit status."""
    run = Path(options.recipe)
    if not (run / "recipe.yaml").is_file():
        return start("eval", read_recipe_of(options), options, arguments)
    # These imports load torch, which a recipe that is only launched does not need.
    from medtune.trainer.runs.run_folder import RunFolder

    folder = RunFolder(run)
    name = str(folder.recorded()["recipe"])
    recipe = read_recipe_of(argparse.Namespace(**{**vars(options), "recipe": str(folder.recipe)}))
    # The number of machines that the run was trained on says nothing about where it is evaluated.
    recipe = replace(
        recipe,
        data=replace(recipe.data, root=folder.found_data(recipe.data.root)),
        train=replace(recipe.train, nodes=1),
    )
    if folder.has_best:
        recipe = replace(recipe, model=replace(recipe.model, checkpoint=folder.best))
    return start("eval", recipe, options, arguments, name=name)


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="A JSON file for the table, in the form of a run's doctor.json (default: the table is only printed, and "
        "remembered for the first run of the checkpoint).",
    )


def doctor_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune doctor`: prints one row for each check; returns 0 if none fails, else 1."""
    recipe = read_recipe(options.recipe, options.overrides)
    # These imports load torch.
    from medtune.eval.results.typed_json import write_document
    from medtune.trainer.doctor import doctor_table, examine, keep, open_candidate

    patient = open_candidate(recipe)
    record = examine(patient)
    keep(patient, record)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_document(options.out, record)
    print(doctor_table(record))
    return 0 if record.passed else 1


COMMANDS: Commands = {
    "run": (run_arguments, run_command),
    "train": (train_arguments, train_command),
    "eval": (eval_arguments, eval_command),
    "doctor": (doctor_arguments, doctor_command),
}
