"""`medtune list KIND`: the recipes, models, benchmarks, metrics or sources that there are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from medtune.data import catalog

KINDS = ("recipes", "models", "benchmarks", "metrics", "sources")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune list`."""
    parser.add_argument("kind", choices=KINDS, help="The kind of thing to list.")


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Prints each name with the first line that its file says of itself, and returns 0."""
    if options.kind == "recipes":
        found = dict.fromkeys(catalog.names("medtune.recipes", ".yaml"), ("medtune.recipes", ".yaml"))
    elif options.kind == "sources":
        # Imported here: it loads numpy, which the other kinds start without.
        from medtune.benchmarks import source_packages

        found = {name: (package, ".py") for name, package in source_packages().items()}
    else:
        package, defining = {
            "models": ("medtune.models.zoo", "entry"),
            "benchmarks": ("medtune.benchmarks", "benchmark"),
            "metrics": ("medtune.eval.metrics", "metric"),
        }[options.kind]
        found = dict.fromkeys(catalog.names(package, defining=defining), (package, ".py"))
    width = max(map(len, found), default=0)
    for name, (package, suffix) in sorted(found.items()):
        print(f"{name:<{width}}  {catalog.first_line(package, name, suffix)}")
    return 0
