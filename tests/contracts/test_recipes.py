"""The contract of recipes over medtune's own."""

from __future__ import annotations

import pytest

from medtune.data import catalog
from medtune.trainer.contracts.contract import Check
from medtune.trainer.contracts.recipes import CONTRACT, Opened


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", catalog.names(catalog.RECIPES))
def test_recipe_keeps_its_contract(name: str, check: Check[Opened]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(check(found)) == []
