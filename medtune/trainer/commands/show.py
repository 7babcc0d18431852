"""`medtune show`: prints a recipe with every value resolved, or the fields that recipes have."""

import argparse
import dataclasses
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.data import catalog
from medtune.trainer.commands.arguments import Commands, add_overrides
from medtune.trainer.recipe.build import block_in, defaults, fields_of, origins, plain_type
from medtune.trainer.recipe.read import find_recipe, read_layers, read_recipe, recipe_to_yaml, recipe_tree
from medtune.trainer.recipe.schema import Recipe

WIDTH = 100
LISTED = "N"
"""Stands for the number of any element in a list of blocks, as in train.stages.N.max_steps."""


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One field of a recipe: full key, allowed values in plain words, default as YAML (or "required"), and meaning."""

    name: str
    type: str
    default: str
    meaning: str


def recipe_fields(block: str = "") -> list[FieldLine]:
    """Returns all fields of a recipe, or those below a key such as "train" or "model.tuning.language"."""
    every = list(_fields(Recipe, prefix="", usual={}))
    found = [field for field in every if not block or field.name == block or field.name.startswith(f"{block}.")]
    if not found:
        known = [field.name for field in every]
        raise ValueError(
            f"recipes have no field {block!r}.{catalog.nearest(block, known)} The blocks are: "
            f"{', '.join(name for name in known if '.' not in name)}"
        )
    return found


def fields_text(fields: Sequence[FieldLine]) -> str:
    """Returns the fields as text: for each one a line with name, type and default, and below it the meaning."""
    paragraphs = []
    for field in fields:
        meaning = textwrap.fill(field.meaning, WIDTH, initial_indent="    ", subsequent_indent="    ")
        paragraphs.append(f"{field.name}: {field.type}; default: {field.default}\n{meaning}")
    return "\n".join(paragraphs)


def meanings(kind: type) -> dict[str, str]:
    """Returns the meaning of each field, read from the sections `Attributes:` of a dataclass and its parents."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        text = inspect.cleandoc(each.__doc__ or "")
        section = re.search(r"^Attributes:\n((?: {4}.*\n?|\n)*)", text, re.MULTILINE)
        for entry in re.split(r"\n(?= {4}\w)", section.group(1).rstrip()) if section else ():
            name, _, meaning = entry.strip().partition(":")
            found[name] = " ".join(meaning.split())
    return found


def _fields(kind: type, *, prefix: str, usual: Mapping[str, object]) -> Iterator[FieldLine]:
    usual, said = {**defaults(kind), **usual}, meanings(kind)
    for name, hint in typing.get_type_hints(kind).items():
        default = _default_text(usual[name]) if name in usual else "required"
        inner = block_in(hint)
        yield FieldLine(f"{prefix}{name}", plain_type(hint), default, said.get(name, ""))
        if inner is not None:
            place = f"{prefix}{name}.{LISTED}." if typing.get_origin(hint) is tuple else f"{prefix}{name}."
            yield from _fields(inner, prefix=place, usual=fields_of(usual.get(name)))


def _default_text(value: object) -> str:
    if dataclasses.is_dataclass(value):
        return "as its fields say"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_default_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_default_text(each)}" for key, each in value.items()) + "}"
    return str(value) if isinstance(value, str | int | Path) else f"{value:g}"


def show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        nargs="?",
        help="The name of a shipped recipe, or the path of a YAML file (default: none, which only --fields allows).",
    )
    add_overrides(parser, of="recipe", example="train.max_steps=10")
    parser.add_argument(
        "--origins",
        action="store_true",
        help="Prints one line for each value, with the file that gives it: RECIPE or one that it extends.",
    )
    parser.add_argument(
        "--fields",
        metavar="BLOCK",
        nargs="?",
        const="",
        help="Prints the fields of recipes instead, with type, default and meaning: all of them, or those of BLOCK, "
        "for instance train or model.tuning (default: a recipe is printed).",
    )


def show_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune show`: prints the recipe under its header, or the fields, and returns 0."""
    if (options.recipe is None) == (options.fields is None):
        raise ValueError("show takes a RECIPE, or --fields [BLOCK] for the fields that recipes have")
    if options.fields is not None:
        print(fields_text(recipe_fields(options.fields)))
        return 0
    recipe = read_recipe(options.recipe, options.overrides)
    _refuse_unknown(recipe)
    if options.origins:
        print(_origins_text(recipe, options.recipe, options.overrides))
        return 0
    for line in find_recipe(options.recipe).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        print(line)
    print(recipe_to_yaml(recipe), end="")
    return 0


def _refuse_unknown(recipe: Recipe) -> None:
    """Refuses a recipe that names a model, benchmark or loss that is not there; nothing of them is imported."""
    model = recipe.model
    named = [
        ("model.name", catalog.MODELS, model.name),
        ("data.benchmark", catalog.BENCHMARKS, recipe.data.benchmark),
        *(("train.loss.name", catalog.LOSSES, stage.loss.name) for stage in recipe.stages),
        ("model.projector", catalog.PROJECTORS, model.projector),
        ("model.vision", catalog.TOWERS, None if model.vision and ":" in model.vision else model.vision),
    ]
    for field, kind, name in named:
        if name is not None:
            try:
                catalog.find(kind, name)
            except ValueError as error:
                raise ValueError(f"{field}: {error}") from None


def _origins_text(recipe: Recipe, name: str, overrides: Sequence[str]) -> str:
    tree = recipe_tree(recipe)
    said = origins(read_layers(name, overrides), tree)
    return "\n".join(f"{key} = {_value(tree, key)!r}    {origin}" for key, origin in said.items())


def _value(tree: Mapping[str, object], key: str) -> object:
    value: object = tree
    for step in key.split("."):
        value = value[step] if isinstance(value, Mapping) else value
    return value


COMMANDS: Commands = {"show": (show_arguments, show_command)}
