"""Writes the pages of docs/reference that are lists in the code: fields, arguments, metrics. `make reference` runs it.

A test holds the pages against the code, so that a field without its line is found. What costs minutes, the memory of
each model by method, is written by website/sizes.py.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.eval.metric import Metric
from medtune.trainer.commands.cli import COMMANDS, parser
from medtune.trainer.commands.show import recipe_fields

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
WRITTEN = "Written from the code by `make reference`; a test holds it against the code."
WIDE = 100


def fields() -> str:
    """Returns the page of all fields of a recipe: a table for each block."""
    every = recipe_fields()
    blocks = [field for field in every if "." not in field.name]
    lines = [
        "# Fields of a recipe", "", WRITTEN,
        "`medtune show --fields` prints the same, and `--set KEY=VALUE` changes any of them.",
        "`N` is the place in a list, as in `train.stages.0.max_steps`.",
    ]  # fmt: skip
    for block in blocks:
        lines += ["", f"## {block.name}", "", f"{block.meaning} ({block.type}; default: {_cell(block.default)})"]
        inner = [field for field in every if field.name.startswith(f"{block.name}.")]
        if inner:
            lines += ["", "| field | takes | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{field.name}` | {_cell(field.type)} | {_cell(field.default)} | {_cell(field.meaning)} |"
            for field in inner
        ]
    return "\n".join(lines) + "\n"


def arguments() -> str:
    """Returns the page of all arguments of all commands."""
    whole = parser()
    (group,) = [action for action in whole._actions if isinstance(action, argparse._SubParsersAction)]
    lines = ["# Arguments of each command", "", WRITTEN]
    lines += ["`medtune COMMAND --help` prints the same; [commands](../commands.md) shows them in use."]
    for name in COMMANDS:
        command = group.choices[name]
        said = " ".join(command.format_usage().removeprefix("usage: ").split())
        lines += ["", f"## {name}", "", command.description or "", "", *_indented(said), ""]
        shown = [action for action in command._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
        if shown:
            lines += ["| argument | meaning |", "|---|---|"]
        lines += [f"| {_names(action)} | {_cell(_help(action, command.prog))} |" for action in shown]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """Returns the page of the metrics that benchmarks share, and of those that each benchmark has."""
    lines = ["# Metrics", "", WRITTEN]
    lines += [
        "`medtune list metrics` names those of the first table, and [scores](../scores.md) says how replies are read."
    ]
    lines += ["", "## Shared by benchmarks", "", "| metric | counts | best |", "|---|---|---|"]
    for name, extension in sorted(catalog.extensions(catalog.METRICS).items()):
        metric = catalog.made(catalog.METRICS, name, Metric)
        lines.append(f"| `{name}` | {_cell(extension.first_line())} | {metric.best:g} |")
    lines += [
        "",
        "## By benchmark",
        "",
        "The first one that is about any question of the split is the primary metric, by which a gain is judged.",
    ]
    lines += ["", "| benchmark | metrics |", "|---|---|"]
    for name in catalog.names(catalog.BENCHMARKS):
        found = find_benchmark(name).metrics
        lines.append(f"| `{name}` | {', '.join(f'`{each}`' for each in found)} |")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {"fields.md": fields, "arguments.md": arguments, "metrics.md": metrics}


def main() -> int:
    """Writes the pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), "utf-8")
        print(REFERENCE / name)
    return 0


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _names(action: argparse.Action) -> str:
    metavar = action.metavar or (None if action.nargs == 0 else "{" + ",".join(map(str, action.choices or ())) + "}")
    value = "" if metavar in (None, "{}") else f" {' '.join(metavar) if isinstance(metavar, tuple) else metavar}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings) or f"`{value.strip() or action.dest}`"


def _help(action: argparse.Action, program: str) -> str:
    values = {"prog": program, "default": action.default, "type": "", "choices": ""}
    return re.sub(r"%\((\w+)\)s", lambda found: str(values[found[1]]), action.help or "").replace("%%", "%")


def _indented(text: str) -> Iterator[str]:
    line = "   "
    for word in text.split(" "):
        if len(line) + len(word) > WIDE:
            yield line
            line = "       "
        line += f" {word}"
    yield line


if __name__ == "__main__":
    raise SystemExit(main())
