"""Tests that each bench says what it measures, takes a subject, and has a test with small input."""

import ast
import inspect
from pathlib import Path

import pytest

from bench.__main__ import find, names

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", names())
def test_bench_says_what_it_measures_and_takes_a_subject(name: str) -> None:
    tree = ast.parse(Path(inspect.getfile(find(name))).read_text("utf-8"))
    assert (ast.get_docstring(tree) or "").partition("\n")[0].endswith((".", ":"))
    assert list(inspect.signature(find(name)).parameters) == ["subject"]
    assert len([*(REPOSITORY / "tests" / "bench").rglob(f"test_{name}.py")]) == 1, "its ways are compared small"
