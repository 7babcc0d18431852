"""`medtune init`: writes a first recipe for somebody's own questions and says the next three commands."""

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from medtune.benchmarks import OWN_QUESTIONS
from medtune.data.out_folder import out_folder
from medtune.data.prepared.manifest import MANIFEST, MAX_REJECTED
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.work.take import read_source
from medtune.data.raw.source import SourceTable
from medtune.trainer.commands.files.chosen_source import add_table_arguments, chosen_source, origin
from medtune.trainer.recipe.data_facts import DataFacts, facts_of_prepared, facts_of_table
from medtune.trainer.recipe.first_recipe import first_recipe

PREPARED = "prepared"
LOOK_AT = 20
"""The number of questions of the quick look that stands in place of `prepare` where that was done."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune init`."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="The folder for the recipe; made if it is missing.")
    parser.add_argument(
        "--data",
        dest="root",
        type=origin,
        required=True,
        metavar="PATH",
        help="The questions, as for --from of `medtune prepare`: a table, a folder, or hf:ID; or a prepared folder.",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="The source that reads the data; `medtune list sources` (default: the first that recognises them).",
    )
    add_table_arguments(parser)
    parser.set_defaults(benchmark=OWN_QUESTIONS, limit=None)


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune init`: writes the recipe, named after its folder, prints the next commands, and returns 0.

    Raises:
        NotADirectoryError: The folder is a file.
    """
    folder = out_folder(options.folder)
    recipe = folder / f"{folder.resolve().name}.yaml"
    if recipe.exists():
        raise FileExistsError(f"{recipe}: this recipe is there already and is left as it is. Name another folder.")
    if isinstance(options.root, Path) and not options.root.exists():
        raise FileNotFoundError(f"{options.root}: there is no such file or folder. Check --data.")
    validate, run = ["medtune", "validate", str(recipe)], ["medtune", "run", str(recipe)]
    look = ["medtune", "eval", str(recipe), "--limit", str(LOOK_AT)]
    if isinstance(options.root, Path) and (options.root / MANIFEST).is_file():
        prepared = open_prepared(options.root)
        facts, benchmark, root = facts_of_prepared(prepared), prepared.manifest.benchmark, options.root
        commands, lines = [validate, look, run], list[str]()
    else:
        with tempfile.TemporaryDirectory(prefix="medtune-") as scratch:
            table = read_source(chosen_source(options), options.root, 0, Path(scratch))
            facts, lines = facts_of_table(table), _noted(table)
        benchmark, root = options.benchmark, folder / PREPARED
        commands = [["medtune", "prepare", benchmark, *_settings(options), "--out", str(root)], validate, run]
    if not facts.questions["train"]:
        # Nothing can be trained, and `validate` refuses such a folder: the model is only asked.
        commands = [*(each for each in commands if each[1] == "prepare"), look, ["medtune", "eval", str(recipe)]]
    typed = [shlex.join(each) for each in commands]
    text = first_recipe(facts, benchmark=benchmark, root=root.resolve(), on_gpu=_has_gpu(), commands=typed)
    folder.mkdir(parents=True, exist_ok=True)
    with recipe.open("x", encoding="utf-8") as file:
        file.write(text)
    print("\n".join([*lines, *_described(facts)]))
    print(f"\n{recipe}: a first recipe with a comment on every field; open it and change what you like.")
    print("The next three commands:\n")
    print("\n".join(f"    {each}" for each in typed))
    return 0


def _settings(options: argparse.Namespace) -> list[str]:
    said = ["--from", str(options.root)]
    for name in ("source", "images", "question"):
        if (value := getattr(options, name)) is not None:
            said += [f"--{name}", str(value)]
    for name in ("columns", "splits"):
        if pairs := getattr(options, name):
            said += [f"--{name}", *(f"{key}={value}" for key, value in pairs)]
    if options.facets is not None:
        said += ["--facets", *options.facets]
    return [*said, "--copy"] if options.copy else said


def _noted(table: SourceTable) -> list[str]:
    lines = [f"note: {note}" for note in table.notes]
    if (unit := table.stands_for_patient) != "patient":
        lines.append(
            f"NO PATIENTS WERE FOUND: one {unit} stands for one patient, so that train and test may share patients. "
            "Name the column: --columns patient=COLUMN"
        )
    return lines


def _described(facts: DataFacts) -> list[str]:
    num = facts.questions
    kinds = " and ".join(f"{kind}s" for kind in sorted(facts.kinds)) or "no media"
    lines = [
        f"questions  train {num['train']:,}, val {num['val']:,}, test {num['test']:,} ({facts.about_splits})",
        f"answers    {facts.closed:,} listed (options, yes or no), {facts.open:,} free",
        f"media      {kinds}" + (f", up to {facts.most_items} together" if facts.most_items > 1 else ""),
    ]
    if not num["train"]:
        lines.append("NO QUESTIONS TO TRAIN ON: all are for testing, so that a model can only be asked.")
    if facts.rejected:
        lines.append(f"rejected   {facts.rejected:,} rows; `prepare` lists them")
        total = sum(num.values()) + facts.rejected
        if facts.rejected > MAX_REJECTED * total:
            lines.append(
                f"`prepare` WILL STOP: more than {MAX_REJECTED:.0%} of the rows are rejected, the first because: "
                f"{facts.first_reject}. Correct them, or add --max-rejected 1 to go on without them."
            )
    return lines


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
