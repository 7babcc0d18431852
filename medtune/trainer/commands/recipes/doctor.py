"""`medtune doctor`: compares a recipe's checkpoint on this machine with plain transformers and peft."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from medtune.trainer.commands.arguments import add_recipe
from medtune.trainer.recipe.read import read_recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune doctor`."""
    add_recipe(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="A JSON file for the table, in the form of a run's doctor.json (default: the table is only printed, and "
        "remembered for the first run of the checkpoint).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune doctor`: prints one row for each check; returns 0 if none fails, else 1."""
    recipe = read_recipe(options.recipe, options.overrides)
    # These imports load torch.
    from medtune.eval.results.typed_json import write_document
    from medtune.trainer.doctor.examine import examine
    from medtune.trainer.doctor.first_run import keep
    from medtune.trainer.doctor.patient import open_patient
    from medtune.trainer.doctor.table import doctor_table

    patient = open_patient(recipe)
    record = examine(patient)
    keep(patient, record)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_document(options.out, record)
    print(doctor_table(record))
    return 0 if record.passed else 1
