"""What the command line's arguments may be."""

from __future__ import annotations

import argparse


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
