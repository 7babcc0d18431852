"""Tests that medtune's own benches keep the contract of benches, and that each bench has a test with small input."""

from __future__ import annotations

from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.contracts.benches import CONTRACT

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", catalog.names(catalog.BENCHES))
def test_bench_keeps_its_contract(name: str) -> None:
    assert list(CONTRACT.broken(name)) == []
    assert (REPOSITORY / "tests" / "trainer" / "benches" / f"test_{name}.py").is_file(), "its paths are compared small"
