"""The commands of README and docs are real: each parses, and what it names exists; the README is short."""

import re
import shlex
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import parser
from tests.website.blocks import blocks, is_synopsis, pages

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in FILES}
MOST_LINES = 130
COMMANDS = [
    command
    for page in pages()
    for block in blocks(page)
    for command in block.commands
    if re.match(r"medtune \w", command) and not is_synopsis(command)
]
FORMS = re.compile(r"\b(?:RECIPE|BENCHMARK|STUDY)\b")
"""What stands for the name of a thing of medtune's, in commands that are no synopses."""


@pytest.mark.parametrize("command", [command for command in COMMANDS if not FORMS.search(command)])
def test_command_is_one_that_medtune_takes(command: str) -> None:
    options = parser().parse_args(shlex.split(command)[1:])
    recipe = getattr(options, "recipe", None)
    if recipe is not None and not recipe.startswith("runs/"):
        assert recipe in catalog.names(catalog.RECIPES)
        from medtune.trainer.recipe.read import read_recipe

        read_recipe(recipe, options.overrides)


def test_the_readme_is_short_and_links_every_page() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    assert [name for name in PAGES if name.count("/") == 1 and name not in README] == []


def test_every_link_leads_somewhere() -> None:
    for name, text in PAGES.items():
        folder = (ROOT / name).parent
        for target in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", text):
            assert (folder / target).exists(), f"{name}: {target}"


def test_every_command_is_in_its_page() -> None:
    commands = re.findall(r"^    (\w+) {2,}", parser().format_help(), re.MULTILINE)
    assert {"run", "score", "validate"} <= set(commands)
    for name in commands:
        assert re.search(rf"medtune (\w+\|)*{name}\b", PAGES["docs/commands.md"]), name
    assert all(kind in PAGES["docs/commands.md"] for kind in catalog.KINDS)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    texts = "\n".join([*PAGES.values(), (ROOT / "CONTRIBUTING.md").read_text("utf-8")])
    for target in re.findall(r"(?:^    |`)make ([a-z-]+)", texts, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
