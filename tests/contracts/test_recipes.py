"""Tests that medtune's own recipes keep the contract of recipes."""

import re
from pathlib import Path

import pytest

import medtune
from medtune.data import catalog
from medtune.trainer.contracts.contract import Check
from medtune.trainer.contracts.recipes import CONTRACT, Opened
from medtune.trainer.recipe.read import find_recipe

MEDTUNE = Path(medtune.__file__).parent


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", catalog.names(catalog.RECIPES))
def test_recipe_keeps_its_contract(name: str, check: Check[Opened]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(check(found)) == []


@pytest.mark.parametrize("name", catalog.names(catalog.RECIPES))
def test_every_path_in_its_header_exists(name: str) -> None:
    head = [line for line in find_recipe(name).read_text("utf-8").splitlines() if line.startswith("#")]
    for path in re.findall(r"(?<![\w/])(?:benchmarks|data|docs|eval|models|trainer)/[\w/]+", " ".join(head)):
        assert (MEDTUNE / path).exists() or (MEDTUNE / f"{path}.py").is_file(), path
