"""What the command line's arguments may be."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def positive(text: str) -> int:
    """Returns a whole number above 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Adds a recipe and its overrides."""
    parser.add_argument("recipe", help="a shipped recipe's name, or a YAML file")
    parser.add_argument("--set", dest="overrides", metavar="KEY=VALUE", nargs="+", action="extend", default=[])


def share(text: str) -> float:
    """Returns a number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1")
    return value


def facet_value(text: str) -> tuple[str, str]:
    """Returns the two sides of FACET=VALUE."""
    facet, equals, value = text.partition("=")
    if not equals or not facet:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted FACET=VALUE, e.g. dataset=23")
    return facet, value


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """Adds --plugins, which every command takes, before or behind its name."""
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder with benchmarks, models, projectors, metrics, recipes and so on of your own; may be given "
        "several times, before or behind the command (default: none)",
    )


def split_plugins(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Returns the folders that --plugins names anywhere among the arguments, and the arguments without them."""
    parser = argparse.ArgumentParser(prog="medtune", add_help=False, allow_abbrev=False)
    add_plugins(parser)
    found, rest = parser.parse_known_args(arguments)
    return found.plugins, rest
