"""`medtune list KIND`: lists the extensions of a kind, each with its first line and its origin."""

import argparse
import sys
from collections.abc import Sequence

from medtune.data import catalog

TWINS = "nano_"
"""The prefix of the names of random, tiny models and of their recipes, which are only for tests."""
ENCODERS = "encoders"
"""The kind that lists the image encoders of timm, which are no modules of medtune."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune list`."""
    parser.add_argument("kind", choices=(*catalog.KINDS, ENCODERS), help="The kind of extension to list.")
    parser.add_argument(
        "--all",
        action="store_true",
        dest="with_twins",
        help=f"Lists the random, tiny models {TWINS}* and their recipes too, which are for tests alone.",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune list`: prints each extension with its first line, and its origin if that is not medtune."""
    if options.kind == ENCODERS:
        # Importing timm takes seconds, which the other lists need not wait for.
        from medtune.models.towers.timm_tower import encoder_names

        print("\n".join(encoder_names()))
        return 0
    found = {
        name: extension
        for name, extension in catalog.extensions(catalog.KINDS[options.kind]).items()
        if options.with_twins or not name.startswith(TWINS)
    }
    width = max(map(len, found), default=0)
    for name, extension in found.items():
        origin = "" if extension.origin == catalog.MEDTUNE else f"  [{extension.origin}]"
        print(f"{name:<{width}}  {extension.first_line()}{origin}")
    if options.kind == catalog.TOWERS.name:
        print("and timm:ENCODER, any image encoder of timm: `medtune list encoders`", file=sys.stderr)
    return 0
