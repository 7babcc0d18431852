"""The README's commands are real: each parses, and what it names exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import parser

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [line.strip() for line in README.splitlines() if re.match(r" {4}medtune \w+ [\w.]+( --|$)", line)]


@pytest.mark.parametrize("command", [c for c in COMMANDS if not re.search(r"[\[{|]|RECIPE$|  ", c)])
def test_command_is_one_that_medtune_takes(command: str) -> None:
    options = parser().parse_args(shlex.split(command)[1:])
    if getattr(options, "recipe", None) is not None:
        assert options.recipe in catalog.names(catalog.RECIPES)
        from medtune.trainer.recipe.read import read_recipe

        read_recipe(options.recipe, options.overrides)


def test_every_command_is_in_the_readme() -> None:
    commands = re.findall(r"^    (\w+) {2,}", parser().format_help(), re.MULTILINE)
    assert {"run", "score", "validate"} <= set(commands)
    for name in commands:
        assert re.search(rf"medtune (\w+\|)*{name}\b", README), name
    assert all(kind in README for kind in catalog.KINDS)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"make ([a-z-]+)", README + (ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
