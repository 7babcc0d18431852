"""`medtune verify`: compares this code with recorded numbers of the published models, from golden files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.models.golden.file import golden_files
from medtune.models.golden.verify import verify_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune verify`."""
    parser.add_argument(
        "paths",
        metavar="GOLDEN.json|DIR",
        type=Path,
        nargs="+",
        help="Golden files, which hold recorded numbers of the published models, or folders with such files.",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune verify`: prints one line for each golden file; returns 0 if all agree with this code, else 1.

    Raises:
        FileNotFoundError: There is no such path.
        ValueError: A folder holds no golden file.
    """
    return verify(options.paths)


def verify(paths: Sequence[Path]) -> int:
    """Prints one line for each golden file and returns 0 if all agree with this code, else 1.

    Raises:
        FileNotFoundError: There is no such path.
        ValueError: A folder holds no golden file.
    """
    failed = 0
    files = golden_files(list(paths))
    width = max(len(file.name) for file in files)
    for file in files:
        try:
            result = verify_file(file)
        except ValueError as error:
            print(f"{file.name:<{width}}  FAILED  {error}", flush=True)
            failed += 1
            continue
        if result.difference:
            print(f"{file.name:<{width}}  FAILED  {result.difference}", flush=True)
            failed += 1
        else:
            print(
                f"{file.name:<{width}}  ok      {result.num_values} values, largest difference {result.largest:.2g}",
                flush=True,
            )
    print(f"{len(files) - failed} of {len(files)} golden files agree")
    return 1 if failed else 0
