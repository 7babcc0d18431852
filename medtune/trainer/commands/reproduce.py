"""`medtune reproduce`: fills a paper's table with rows of our own, and writes it beside the published one."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medtune.benchmarks import find_source
from medtune.data.files import replace_file
from medtune.eval.results.typed_json import read_json
from medtune.eval.scoring.tables import table_text
from medtune.eval.studies.page import departure_table, paper_shaped, write_study
from medtune.trainer.commands.arguments import Commands, add_overrides
from medtune.trainer.launch.held import held
from medtune.trainer.launch.slurm import SlurmArray, submit_array
from medtune.trainer.recipe.schema import LogBlock
from medtune.trainer.series.runs import arguments_of, refuse_launchers, run_unfinished
from medtune.trainer.studies.planned import DATA, ROWS, PlannedRow, planned_rows
from medtune.trainer.studies.report import study_report
from medtune.trainer.studies.requirements import requirements_text
from medtune.trainer.studies.study import FULL, OpenedStudy, Simulated, open_study

STUDY_FILE = "study.json"
SIMULATION = "simulation"
"""The folder of a study that holds the settings of its simulated data."""
RUNS = Path("runs")
"""Where runs lie that name no folder."""


def reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", metavar="STUDY", help="The name of a study (`medtune list studies`), or the path of a YAML file."
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="The folder of the study; --dry needs none (default: none)."
    )
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="NAME", help="Makes only these rows (default: all rows of the study)."
    )
    parser.add_argument(
        "--scale",
        default=FULL,
        metavar="NAME",
        help="The scale of the study: full, with the released data and the models of the paper, or a smaller one such "
        "as pocket, with simulated data and small models, labelled as such everywhere (default: %(default)s).",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="A prepared folder that every row is asked and learns from, in place of the study's; for several "
        "benchmarks, a folder with a prepared one for each, named by its benchmark (default: none).",
    )
    parser.add_argument(
        "--reuse",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="Folders in which finished runs are looked for; one with the same recipe, data and weights is taken, "
        "whoever made it (default: the folder runs).",
    )
    parser.add_argument(
        "--resume", action="store_true", help="Goes on in a folder that holds rows: finished rows are kept."
    )
    parser.add_argument(
        "--collect", action="store_true", help="Makes no run: writes the page of the rows that are finished."
    )
    parser.add_argument(
        "--wandb",
        choices=("auto", "online", "offline", "disabled"),
        default="auto",
        help="Whether the tables go to W&B, as log.wandb of a recipe (default: %(default)s).",
    )
    parser.add_argument(
        "--project", default="medtune", metavar="NAME", help="The project at W&B (default: %(default)s)."
    )
    parser.add_argument(
        "--dry",
        action="store_true",
        help="Says what each row needs, and makes nothing; with --slurm: prints the scripts.",
    )
    parser.add_argument(
        "--slurm",
        metavar="KEY=VALUE,...",
        help="Submits an array job with a task for each row, and a job behind it that writes the page, for instance "
        "time=24:00:00,gpus=4 (default: the rows are made here, one after another).",
    )
    add_overrides(parser, of="study", example="seeds=5")


def reproduce_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Makes the rows that are not there, writes the page, prints the tables and returns the exit status."""
    opened = open_study(options.study, scale=options.scale, rows=options.rows, overrides=options.overrides)
    if options.dry and options.slurm is None:
        print(requirements_text(opened, data=options.data))
        return 0
    if options.out is None:
        raise ValueError("reproduce needs --out: the folder of the study")
    refuse_launchers("reproduce")
    _refuse_other_study(opened, options)
    if options.slurm is not None:
        return _submit(opened, options, arguments)
    with held(options.out):
        if not options.collect and (status := _make(opened, options)):
            return status
        return _write(opened, options)


def _refuse_other_study(opened: OpenedStudy, options: argparse.Namespace) -> None:
    out: Path = options.out
    begun = out / ROWS
    if not begun.is_dir() and not (out / STUDY_FILE).is_file():
        return
    if (out / STUDY_FILE).is_file():
        there = read_json(out / STUDY_FILE, dict[str, Any])
        if (there.get("study"), there.get("scale")) != (opened.name, opened.scale):
            raise ValueError(
                f"{out} holds the study {there.get('study')} at the scale {there.get('scale')}, not {opened.name} at "
                f"{opened.scale}. Give another --out"
            )
    if not (options.resume or options.collect):
        raise ValueError(f"{out} holds rows of a study already: go on with --resume, or give another --out")


def _make(opened: OpenedStudy, options: argparse.Namespace) -> int:
    data = _data(opened, options)
    if opened.scale != FULL and data is None:
        raise ValueError(
            f"{opened.file}: the scale {opened.scale} simulates nothing: give your prepared data by --data"
        )
    if opened.simulated and options.data is None and (status := _simulate(opened, options.out / DATA)):
        return status
    for each in planned_rows(opened, options.out, data=data, reuse=options.reuse or [RUNS]):
        if each.found:
            print(f"\n{each.planned.title}: taken from {each.found}", flush=True)
            continue
        print(f"\n{each.planned.title}", flush=True)
        if status := run_unfinished(_start, _arguments_of(opened, each), each.planned, resume=True):
            return status
    return 0


def _data(opened: OpenedStudy, options: argparse.Namespace) -> Path | None:
    """Returns the prepared folder that replaces those of the recipes; None where they keep theirs."""
    if options.data is not None:
        given: Path = options.data
        return given
    return options.out / DATA if opened.simulated else None


def _simulate(opened: OpenedStudy, folder: Path) -> int:
    simulated = opened.simulated
    if simulated is None or (folder / "manifest.json").is_file():
        return 0
    number = [] if simulated.patients is None else ["--limit", str(simulated.patients)]
    if simulated.settings:
        number = ["--from", str(settings_folder(simulated, folder.parent / SIMULATION))]
    print(f"simulated data: {simulated.source}", flush=True)
    return _start(
        [
            "prepare", *opened.study.sets, "--source", simulated.source, "--out", str(folder), "--seed",
            str(simulated.seed), *number,
        ]
    )  # fmt: skip


def settings_folder(simulated: Simulated, folder: Path) -> Path:
    """Writes the settings of a simulation as its source reads them, and returns their folder."""
    source = find_source(simulated.source)
    if source.write_settings is None:
        raise ValueError(f"{simulated.source} takes no settings; leave scales.NAME.data.settings out")
    folder.mkdir(parents=True, exist_ok=True)
    source.write_settings(folder, simulated.patients or 0)
    (file,) = folder.glob("*.json")
    replace_file(file, [json.dumps({**read_json(file, dict[str, Any]), **simulated.settings}).encode()])
    return folder


def _start(arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.cli import parser

    options = parser([arguments[0]]).parse_args(list(arguments))
    return int(options.command(options, list(arguments)))


def _arguments_of(opened: OpenedStudy, each: PlannedRow) -> list[str]:
    return [opened.study.work, str(each.row.recipe)]


def _submit(opened: OpenedStudy, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    data = _data(opened, options)
    simulates = opened.simulated and options.data is None and not options.dry
    if simulates and (status := _simulate(opened, options.out / DATA)):
        return status
    planned = planned_rows(opened, options.out, data=data, reuse=options.reuse or [RUNS])
    runs = [
        tuple(arguments_of(_arguments_of(opened, each), each.planned, resume=True))
        for each in planned
        if each.found is None
    ]
    if not runs:
        print("every row is there already: writing the page here")
        return _write(opened, options)
    array = SlurmArray(options.slurm, options.out, tuple(runs), tuple(arguments))
    return submit_array(array, dry=options.dry)


def _write(opened: OpenedStudy, options: argparse.Namespace) -> int:
    report = study_report(opened, options.out, data=_data(opened, options), reuse=options.reuse or [RUNS])
    paths = write_study(options.out, report)
    from medtune.trainer.studies.wandb_run import send_study

    for table in (*(paper_shaped(report, table) for table in report.tables), departure_table(report)):
        print(f"\n{table_text(table)}")
    said = send_study(report, options.out, LogBlock(wandb=options.wandb, project=options.project))
    print(*filter(None, ["", *map(str, paths), said]), sep="\n")
    return 0


COMMANDS: Commands = {"reproduce": (reproduce_arguments, reproduce_command)}
