"""Tests that the tables of plans in the headers of recipes are those that `medtune validate` prints."""

import shlex
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.recipe.read import find_recipe
from tests.ranks import Forked

COMMAND = "$ medtune validate "


def _tables(name: str) -> dict[str, list[str]]:
    """Returns the lines of each table in a recipe's header by the arguments of its command."""
    found: dict[str, list[str]] = {}
    arguments: str | None = None
    for line in find_recipe(name).read_text("utf-8").splitlines():
        inside = line.removeprefix("#").strip()
        if inside.startswith(COMMAND):
            arguments = inside.removeprefix(COMMAND)
            found[arguments] = []
        elif arguments is not None and line.startswith("#     "):
            found[arguments].append(inside)
        else:
            arguments = None
    return found


TABLES = [(name, arguments) for name in catalog.names(catalog.RECIPES) for arguments in _tables(name)]
IN_SLOW = "radfm_ctlesionvqa --no-weights --devices 4xA6000-48GB"
"""The one that is soonest planned."""


def _marks(arguments: str) -> pytest.MarkDecorator:
    return pytest.mark.slow if arguments == IN_SLOW else pytest.mark.soak


def test_the_recipes_that_the_plan_was_made_for_have_tables() -> None:
    devices = {(name, arguments.split("--devices ")[1].split()[0]) for name, arguments in TABLES}
    lora, full = "llama32_11b_fetal_gauge_lora", "llama32_11b_fetal_gauge_full"
    wanted = {(lora, "1xRTX4090-24GB"), (lora, "1xA100-40GB"), (lora, "1xA6000-48GB"), (full, "8xA100-80GB")}
    assert devices >= wanted | {("radfm_ctlesionvqa", "4xA6000-48GB"), ("radfm_ctlesionvqa", "8xA100-80GB")}


@pytest.mark.parametrize(("name", "arguments"), [pytest.param(*each, marks=_marks(each[1])) for each in TABLES])
def test_a_table_is_what_validate_prints(name: str, arguments: str, tmp_path: Path) -> None:
    table = _tables(name)[arguments]
    assert len(table) > 5
    assert not any("does not fit" in line for line in table)
    # It ends with status 1, because the data are missing here.
    validating = Forked(["validate", *shlex.split(arguments)], folder=tmp_path)
    said = [line.strip() for line in validating.communicate(timeout=500)[0].splitlines()]
    first = said.index(table[0])
    assert said[first : first + len(table)] == table
