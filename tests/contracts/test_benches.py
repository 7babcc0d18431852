"""What every file in trainer/benches has to keep."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from medtune.data import catalog
from medtune.trainer.commands.extensions.bench import BENCHES

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", catalog.names(BENCHES, defining="bench"))
def test_a_bench_says_what_it_is_and_takes_a_subject(name: str) -> None:
    assert catalog.first_line(BENCHES, name).endswith((".", ":"))
    bench = catalog.load(BENCHES, name, "bench")
    assert callable(bench)
    assert list(inspect.signature(bench).parameters) == ["subject"]
    assert (REPOSITORY / "tests" / "trainer" / "benches" / f"test_{name}.py").is_file(), "its paths are compared small"
