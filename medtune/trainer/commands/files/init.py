"""`medtune init`: writes a first recipe for somebody's own questions and says the next three commands."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from medtune.benchmarks import OWN_QUESTIONS, find_benchmark, find_source
from medtune.data.prepared.manifest import MANIFEST
from medtune.data.prepared.read import open_prepared
from medtune.trainer.recipe.data_facts import DataFacts, facts_of_prepared, facts_of_table
from medtune.trainer.recipe.first_recipe import first_recipe

PREPARED = "prepared"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune init`."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="The folder for the recipe; made if it is missing.")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DATA",
        help="The questions, as for --from of `medtune prepare`; or a prepared folder.",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="The source that reads the data; `medtune list sources` (default: as `medtune prepare` chooses it).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune init`: writes the recipe, prints what it is for and the next commands, and returns 0.

    Raises:
        FileNotFoundError: There are no such data.
        FileExistsError: The folder has such a recipe already.
        ValueError: The data cannot be read, or hold no questions.
    """
    return init(options.folder, data=options.data, source=options.source)


def init(folder: Path, *, data: Path, source: str | None) -> int:
    """Writes a recipe named after its folder, prints the next commands, and returns 0.

    Args:
        folder: The folder for the recipe.
        data: The raw data, or a prepared folder.
        source: The source that reads raw data; None takes the one that `medtune prepare` takes.

    Raises:
        FileNotFoundError: There are no such data.
        FileExistsError: The folder has such a recipe already.
        ValueError: The data cannot be read, or hold no questions.
    """
    recipe = folder / f"{folder.resolve().name}.yaml"
    if recipe.exists():
        raise FileExistsError(f"{recipe}: this recipe is there already and is left as it is. Name another folder.")
    if not data.exists():
        raise FileNotFoundError(f"{data}: there are no such data (--data). Check the path.")
    validate, run = ["medtune", "validate", str(recipe)], ["medtune", "run", str(recipe)]
    if (data / MANIFEST).is_file():
        prepared = open_prepared(data)
        facts, benchmark, root = facts_of_prepared(prepared), prepared.manifest.benchmark, data
        commands = [validate, ["medtune", "eval", str(recipe), "--limit", "20"], run]
    else:
        facts, benchmark, root = _read(data, source), OWN_QUESTIONS, folder / PREPARED
        named = ["--source", source] if source else []
        commands = [["medtune", "prepare", benchmark, "--from", str(data), *named, "--out", str(root)], validate, run]
    typed = [shlex.join(each) for each in commands]
    text = first_recipe(facts, benchmark=benchmark, root=root.resolve(), on_gpu=_has_gpu(), commands=typed)
    folder.mkdir(parents=True, exist_ok=True)
    with recipe.open("x", encoding="utf-8") as file:
        file.write(text)
    print(f"{recipe}: a first recipe with a comment on every field; open it and change what you like")
    for line in _described(facts):
        print(line)
    print("\nThe next three commands:\n")
    print("\n".join(f"    {each}" for each in typed))
    return 0


def _read(data: Path, source: str | None) -> DataFacts:
    with tempfile.TemporaryDirectory(prefix="medtune-") as scratch:
        return facts_of_table(
            find_source(source or find_benchmark(OWN_QUESTIONS).sources[0]).read(data, 0, Path(scratch))
        )


def _described(facts: DataFacts) -> list[str]:
    num = facts.questions
    about = "as the data say" if facts.is_split else "estimated; `prepare` draws the split by patient"
    kinds = " and ".join(f"{kind}s" for kind in sorted(facts.kinds)) or "no media"
    lines = [
        f"questions  train {num['train']:,}, val {num['val']:,}, test {num['test']:,} ({about})",
        f"answers    {facts.closed:,} listed (options, yes or no), {facts.open:,} free",
        f"media      {kinds}" + (f", up to {facts.most_items} together" if facts.most_items > 1 else ""),
    ]
    return [*lines, f"rejected   {facts.rejected:,} rows; `prepare` lists them"] if facts.rejected else lines


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
