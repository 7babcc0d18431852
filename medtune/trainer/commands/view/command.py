"""`medtune view`: one page over all runs below a folder, written as a file or served on the loopback address."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.data.files import replace_file
from medtune.eval.report.runs.overview import linked_runs, overview_html, runs_below
from medtune.trainer.commands.arguments import Commands
from medtune.trainer.commands.view.server import LOOPBACK, serving

RUNS = Path("runs")
"""The folder in which runs lie that were given no other."""
PAGE = "view.html"
PORT = 8707


def view_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=Path,
        nargs="?",
        default=RUNS,
        metavar="RUNS",
        help="The folder with the runs (default: %(default)s).",
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help=f"Serves the page and the reports on {LOOPBACK} alone, up to date at each visit, instead of a file.",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        metavar="NUMBER",
        help="The port that --serve takes; 0 for a free one (default: %(default)s).",
    )


def view_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune view`, which loads no weights and asks no model."""
    root: Path = options.runs
    lines = runs_below(root)
    if links := linked_runs(root):
        named = ", ".join(str(link) for link in links)
        print(f"links are not followed, so that these runs are left out: {named}; name the folder that holds them")
    if options.serve:
        with serving(root, port=options.port) as server:
            print(f"{len(lines)} runs below {root}: {server.address} (Ctrl-C ends it)", flush=True)
            server.serve_forever()
        return 0
    page = root / PAGE
    replace_file(page, [overview_html(root, lines, is_served=False).encode()])
    print(f"{len(lines)} runs: {page}")
    return 0


COMMANDS: Commands = {"view": (view_arguments, view_command)}
