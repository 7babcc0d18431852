"""Recorded values of the metrics: other rows may lie under the same names, so tests go by what the file holds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("MEDTUNE_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden") / "metrics"


def recorded(name: str) -> dict[str, Any]:
    path = ROOT / name
    if not path.is_file():
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            pytest.fail(f"MEDTUNE_REQUIRE_SHARED=1, but there is no {path}")
        pytest.skip(f"no recorded values at {path}; set MEDTUNE_GOLDEN")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["table"]]


def near(value: object) -> object:
    """Returns what equals the recorded value to 1e-9; None equals None alone."""
    if isinstance(value, list):
        return [near(each) for each in value]
    return pytest.approx(value, abs=1e-9, rel=1e-9) if isinstance(value, int | float) else value
