"""The commands of README and docs are real: each parses, and what it names exists; the README is short."""

import re
import shlex
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import parser

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {page.name: page.read_text("utf-8") for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
MOST_LINES = 130
COMMANDS = [
    line.strip()
    for text in PAGES.values()
    for line in re.sub(r"\\\n *", "", text).splitlines()
    if re.match(r" {4}medtune \w+ [\w.]+( --|$)", line)
]


@pytest.mark.parametrize("command", [c for c in COMMANDS if not re.search(r"[\[{|]|RECIPE\b|  ", c)])
def test_command_is_one_that_medtune_takes(command: str) -> None:
    options = parser().parse_args(shlex.split(command)[1:])
    if getattr(options, "recipe", None) is not None:
        assert options.recipe in catalog.names(catalog.RECIPES)
        from medtune.trainer.recipe.read import read_recipe

        read_recipe(options.recipe, options.overrides)


def test_the_readme_is_short_and_links_every_page() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    assert [name for name in PAGES if name != "README.md" and f"docs/{name}" not in README] == []


def test_every_link_leads_somewhere() -> None:
    for name, text in PAGES.items():
        folder = ROOT if name == "README.md" else ROOT / "docs"
        for target in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", text):
            assert (folder / target).exists(), f"{name}: {target}"


def test_every_command_is_in_its_page() -> None:
    commands = re.findall(r"^    (\w+) {2,}", parser().format_help(), re.MULTILINE)
    assert {"run", "score", "validate"} <= set(commands)
    for name in commands:
        assert re.search(rf"medtune (\w+\|)*{name}\b", PAGES["commands.md"]), name
    assert all(kind in PAGES["commands.md"] for kind in catalog.KINDS)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    texts = "\n".join([*PAGES.values(), (ROOT / "CONTRIBUTING.md").read_text("utf-8")])
    for target in re.findall(r"(?:^    |`)make ([a-z-]+)", texts, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
