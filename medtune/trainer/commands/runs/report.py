"""`medtune report`: writes the report of a finished run, or one table of several runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.benchmarks import paper_of
from medtune.eval.report.write import write_report, write_runs
from medtune.trainer.recipe.plugin_folders import use_plugins_of_run

OUT = Path("runs_report")
"""The default folder for the table of several runs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune report`."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="The folders of one or more finished runs.")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="The folder to write the table of several runs to; a single run's report is written into its own folder "
        f"(default: {OUT}).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune report`: writes report.html and report.md, prints where they are and returns 0."""
    for run in options.runs:
        use_plugins_of_run(run)
    if len(options.runs) > 1:
        print(write_runs(options.runs, options.out or OUT))
    elif options.out:
        raise ValueError("--out is for several runs; the report of one is written into its folder")
    else:
        print(write_report(options.runs[0], paper_of))
    return 0
