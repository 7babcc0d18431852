"""Finds recorded values and compares numbers with them."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest


def recorded(name: str) -> dict[str, Any]:
    """Returns a file of recorded metric values; skips the test, or fails it where they are required."""
    root = Path(os.environ.get("MEDTUNE_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden")
    path = root / "metrics" / name
    if not path.is_file():
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            pytest.fail(f"MEDTUNE_REQUIRE_SHARED=1, but there is no {path}")
        pytest.skip(f"no recorded values at {path}; set MEDTUNE_GOLDEN")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def close(found: float, wanted: float | str, *, tolerance: float = 1e-9) -> bool:
    """Returns whether two numbers agree to `tolerance`, absolute or relative; "nan" and "inf" agree with themselves."""
    number = float(wanted)
    if not math.isfinite(number):
        return math.isnan(found) if math.isnan(number) else found == number
    return math.isclose(found, number, rel_tol=tolerance, abs_tol=tolerance)


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a recorded {"columns", "table"} as dictionaries."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["table"]]


def near(value: object) -> object:
    """Returns an object that equals numbers within 1e-9 of the recorded value; for None it equals only None."""
    if isinstance(value, list):
        return [near(each) for each in value]
    return pytest.approx(value, abs=1e-9, rel=1e-9) if isinstance(value, int | float) else value
