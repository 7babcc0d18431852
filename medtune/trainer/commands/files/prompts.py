"""`medtune prompts`: writes the YAML file of a benchmark's official prompts from its own files of plain text."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import yaml

from medtune.benchmarks import find_benchmark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune prompts`."""
    parser.add_argument("benchmark", metavar="BENCHMARK", help="The benchmark whose prompts they are.")
    parser.add_argument(
        "--from",
        dest="folder",
        type=Path,
        required=True,
        metavar="DIR",
        help="A folder with the benchmark's own prompts, as its README says.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="The YAML file to write.")


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune prompts`: writes a line for each template, names those that are still missing, and returns 0."""
    benchmark = find_benchmark(options.benchmark)
    official = benchmark.official
    if official is None or official.from_texts is None:
        names = "" if official is None else f"; write them yourself, a line for each of {official.listed}"
        raise ValueError(f"{benchmark.title} has no prompts in files of plain text{names}")
    if options.out.exists():
        raise FileExistsError(f"{options.out} exists; name another file with --out")
    found = official.from_texts(options.folder)
    options.out.write_text(yaml.safe_dump(dict(found), allow_unicode=True, sort_keys=True), "utf-8")
    print(f"{options.out}: {len(found)} of {len(official.names)} templates; give it to `medtune prepare --prompts`")
    if missing := [name for name in official.names if name not in found]:
        print(f"asked in our words until you add them: {', '.join(missing)}")
    return 0
