"""The arguments that several commands share, and the types of values that an argument may have."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from medtune.data.languages import LANGUAGES

Commands = Mapping[
    str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace, Sequence[str]], int]]
]
"""For the name of each command of a module, the function that adds its arguments, and the one that runs it.

That takes the parsed arguments and all arguments as given, and returns the exit status.
"""
ACCEPT_CHANGED_DATA = "--accept-changed-data"


def positive(text: str) -> int:
    """Returns the whole number that `text` holds, which must be above 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def share(text: str) -> float:
    """Returns the number that `text` holds, which must be from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1, in which 0.05 is 5 %")
    return value


def facet_value(text: str) -> tuple[str, str]:
    facet, equals, value = text.partition("=")
    if not equals or not facet:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted FACET=VALUE, e.g. dataset=23")
    return facet, value


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """Adds the recipe's name and `--set`, which overrides its values."""
    parser.add_argument("recipe", metavar="RECIPE", help="The name of a shipped recipe, or the path of a YAML file.")
    add_overrides(parser, of="recipe", example="train.max_steps=10")


def add_overrides(parser: argparse._ActionsContainer, *, of: str, example: str) -> None:
    """Adds `--set`, which overrides values of a YAML file."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help=f"Values that replace those of the {of}, each with its full key, for instance {example}; VALUE is read "
        "as YAML (default: no value is replaced).",
    )


def add_split(parser: argparse.ArgumentParser, *, of: str) -> None:
    parser.add_argument(
        "--split", default="test", choices=("train", "val", "test"), help=f"The split of {of} (default: %(default)s)."
    )


def add_questions(parser: argparse.ArgumentParser) -> None:
    """Adds --questions, the prepared folder of a run that has been moved."""
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="DIR",
        help="The prepared folder of the run, if it has been moved (default: the recipe's data.root, or a folder with "
        "the same data beside the run).",
    )


def add_run_folder(parser: argparse.ArgumentParser) -> None:
    """Adds --out, --resume and --limit, which all commands that write a run folder share."""
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="The run folder to write (default: runs/RECIPE/DATE-TIME)."
    )
    parser.add_argument(
        "--resume", action="store_true", help="Continues the unfinished run in the folder that --out names."
    )
    parser.add_argument(
        ACCEPT_CHANGED_DATA,
        action="store_true",
        help="With --resume: goes on although the prepared data are others than those that the run began with; every "
        "output then says so. Without it, changed data are refused.",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="Uses about N questions of each split, drawn as whole media groups (default: all questions).",
    )


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments about the language of prompts, measured numbers, and several labels in each row of a table."""
    parser.add_argument(
        "--language",
        choices=tuple(LANGUAGES),
        help="The language in which prompts say how to answer (default: that of the questions).",
    )
    parser.add_argument(
        "--tolerance",
        metavar="ERROR",
        help="The largest error of a number that counts as right: 2, '2 mm' or 10%% of the true number (default: the "
        "column tolerance, else none).",
    )
    parser.add_argument(
        "--labels",
        nargs="+",
        metavar="COLUMN",
        help="The columns of several labels a row, which hold 1, 0 and -1, or the one column with lists of labels "
        "(default: a row has one answer).",
    )
    parser.add_argument(
        "--ask-labels",
        choices=("each", "one"),
        default="each",
        help="Asks one yes-or-no question for each label, or one question for all of a row's labels, which only "
        "generation can answer (default: %(default)s).",
    )
    parser.add_argument(
        "--uncertain",
        choices=("leave-out", "yes", "no"),
        default="leave-out",
        help="What a label of -1 counts as (default: %(default)s).",
    )
