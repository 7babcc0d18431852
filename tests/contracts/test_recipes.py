"""What every shipped recipe must do: parse, say what is known about it, and name things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from medtune import benchmarks
from medtune.data import catalog
from medtune.models.assemble import ServedEntry, any_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.recipe.read import find_recipe, read_recipe, recipe_from_tree, recipe_to_yaml

MEDTUNE = Path(benchmarks.__file__).parents[1]
NAMES = catalog.names("medtune.recipes", ".yaml")


@pytest.mark.parametrize("name", NAMES)
def test_header_says_source_command_hardware_and_result(name: str) -> None:
    head = [line for line in find_recipe(name).read_text("utf-8").splitlines() if line.startswith("#")]
    assert catalog.first_line("medtune.recipes", name, ".yaml").endswith(".")
    for word in ("Source:", "Command:", "Hardware:", "Expected:"):
        assert any(line.startswith(f"# {word}") for line in head), word


@pytest.mark.parametrize("name", NAMES)
def test_every_path_in_its_header_exists(name: str) -> None:
    head = [line for line in find_recipe(name).read_text("utf-8").splitlines() if line.startswith("#")]
    for path in re.findall(r"(?<![\w/])(?:benchmarks|data|docs|eval|models|trainer)/[\w/]+", " ".join(head)):
        assert (MEDTUNE / path).exists() or (MEDTUNE / f"{path}.py").is_file(), path


@pytest.mark.parametrize("name", NAMES)
def test_everything_it_names_exists(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.data.benchmark in benchmarks.names()
    entry = any_entry(recipe.model.name)
    if isinstance(entry, ServedEntry):
        assert recipe.model.endpoint is not None
    else:
        apply_tuning(entry.skeleton(), recipe.model.tuning, seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_resolved_recipe_reads_back_the_same(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe_from_tree(yaml.safe_load(recipe_to_yaml(recipe)), where=name) == recipe
