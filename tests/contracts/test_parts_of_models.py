"""Tests that medtune's own towers, projectors and families keep their contracts."""

from __future__ import annotations

import pytest

from medtune.data import catalog
from medtune.data.catalog import FAMILIES, PROJECTORS, TOWERS, Kind
from medtune.trainer.contracts.contract import contract_of


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (TOWERS, PROJECTORS, FAMILIES) for name in catalog.names(kind)],
    ids=lambda each: each.name if isinstance(each, Kind) else each,
)
def test_part_keeps_its_contract(kind: Kind, name: str) -> None:
    assert list(contract_of(kind)(name)) == []
